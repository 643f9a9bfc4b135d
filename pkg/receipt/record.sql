INSERT INTO outcome (lane, "offset", item, tenant, delivery, feed, event_source, event_id, event_type, outcome, reason, detail, message,
                     canonicalization, fingerprint, archived, accepted_lane, accepted_offset, accepted_item, mapping_version, rows,
                     saved, duplicate, old, ambiguous_order, rejected, rejections, warnings, run, page, first_seq, last_seq,
                     retrieved_ns, recorded_at, declared, beyond_horizon,
                     result_seq)
SELECT r.lane, r."offset", r.item, r.tenant, r.delivery, nullif(r.feed, ''), nullif(r.event_source, ''), nullif(r.event_id, ''),
       nullif(r.event_type, ''), r.outcome, nullif(r.reason, ''), nullif(r.detail, ''), nullif(r.message, ''),
       nullif(r.canonicalization, ''), r.fingerprint, r.archived, nullif(r.accepted_lane, -1),
       CASE WHEN r.accepted_lane >= 0 THEN r.accepted_offset END, CASE WHEN r.accepted_lane >= 0 THEN r.accepted_item END,
       nullif(r.mapping_version, 0), r.rows, r.saved, r.duplicate, r.old, r.ambiguous_order, r.rejected,
       nullif(r.rejections, '')::jsonb, nullif(r.warnings, '')::jsonb, nullif(r.run, ''), nullif(r.page, 0), nullif(r.first_seq, 0),
       nullif(r.last_seq, 0), r.retrieved_ns, r.recorded_at, nullif(r.declared, ''),
       nullif(r.beyond_horizon, false), nullif(r.result_seq, 0)
  FROM unnest($1::int[], $2::bigint[], $3::int[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
              $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::bool[], $17::int[], $18::bigint[], $19::int[],
              $20::int[], $21::int[], $22::int[], $23::int[], $24::int[], $25::int[], $26::int[], $27::text[], $28::text[],
              $29::text[], $30::int[], $31::bigint[], $32::bigint[], $33::bigint[], $34::timestamptz[], $35::text[], $36::bool[],
              $37::bigint[])
       AS r (lane, "offset", item, tenant, delivery, feed, event_source, event_id, event_type, outcome, reason, detail, message,
             canonicalization, fingerprint, archived, accepted_lane, accepted_offset, accepted_item, mapping_version, rows, saved,
             duplicate, old, ambiguous_order, rejected, rejections, warnings, run, page, first_seq, last_seq, retrieved_ns,
             recorded_at, declared, beyond_horizon, result_seq);
