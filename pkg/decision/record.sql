INSERT INTO decision (tenant, subject, n, kind, lane, seq, verdict, standing, offer, account, as_of, feed, moment, collected, item_was,
                      item, reason, actor, command, recorded_at, delivery, mapping_version)
SELECT r.tenant, r.subject, r.n, r.kind, r.lane, r.seq, r.verdict, r.standing, r.offer, nullif(r.account, ''), r.as_of, nullif(r.feed, ''),
       r.moment, r.collected, string_to_array(nullif(r.item_was, ''), chr(31)), string_to_array(nullif(r.item, ''), chr(31)),
       nullif(r.reason, ''), nullif(r.actor, ''), r.command, r.recorded_at, r.delivery,
       r.mapping_version
  FROM unnest($1::text[], $2::uuid[], $3::int[], $4::text[], $5::int[], $6::bigint[], $7::text[], $8::smallint[], $9::uuid[], $10::text[],
              $11::bigint[], $12::text[], $13::bigint[], $14::timestamptz[], $15::text[], $16::text[], $17::text[], $18::text[], $19::uuid[],
              $20::timestamptz[], $21::uuid[], $22::int[])
       AS r (tenant, subject, n, kind, lane, seq, verdict, standing, offer, account, as_of, feed, moment, collected, item_was, item,
             reason, actor, command, recorded_at, delivery, mapping_version)
 ORDER BY r.tenant, r.subject, r.n
    ON CONFLICT (tenant, subject, n) DO NOTHING;
