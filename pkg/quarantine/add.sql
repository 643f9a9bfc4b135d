INSERT INTO quarantine (tenant, id, delivery, feed, row, reason, detail, message, line, "column", path, event_source, event_id,
                        canonicalization, fingerprint, lane, "offset", item, archived, content, observation, recorded_at)
SELECT r.tenant, r.id, r.delivery, nullif(r.feed, ''), r.row, r.reason, nullif(r.detail, ''), nullif(r.message, ''), nullif(r.line, 0),
       nullif(r."column", 0), nullif(r.path, ''), nullif(r.event_source, ''), nullif(r.event_id, ''), nullif(r.canonicalization, ''),
       r.fingerprint, r.lane, r."offset", r.item, r.archived, nullif(r.content, '')::jsonb, r.observation, r.recorded_at
  FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::int[], $6::text[], $7::text[], $8::text[], $9::int[], $10::int[],
              $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::int[], $17::bigint[], $18::int[], $19::bool[],
              $20::text[], $21::uuid[], $22::timestamptz[])
       AS r (tenant, id, delivery, feed, row, reason, detail, message, line, "column", path, event_source, event_id,
             canonicalization, fingerprint, lane, "offset", item, archived, content, observation, recorded_at)
    ON CONFLICT (tenant, id) DO NOTHING;
