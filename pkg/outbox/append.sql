INSERT INTO outbox (slot, lane, first, last, kind, topic, key, event_id, event_type, body, recorded_at)
SELECT ring.slot, r.lane, r.first, r.last, r.kind, r.topic, r.key, r.event_id,
       r.event_type, r.body, r.recorded_at
  FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::bytea[], $10::timestamptz[])
       AS r (lane, first, last, kind, topic, key, event_id, event_type, body, recorded_at)
 CROSS JOIN outbox_ring AS ring;
