INSERT INTO sighting (lane, seq, tenant, offer, strong, ord, observation, delivery, row, weak_identity, observed_ns,
                      observed_at, retrieved_ns, recorded_at, run, held, due_ns)
SELECT r.lane, r.seq, r.tenant, r.offer, r.strong, r.ord, r.observation, r.delivery, r.row, r.weak_identity, r.observed_ns,
       r.observed_at, r.retrieved_ns, r.recorded_at, r.run, r.held, r.due_ns
  FROM unnest($1::int[], $2::bigint[], $3::text[], $4::uuid[], $5::bool[], $6::bigint[], $7::uuid[], $8::uuid[], $9::int[],
              $10::bool[], $11::bigint[], $12::text[], $13::bigint[], $14::timestamptz[],
              $15::uuid[], $16::bool[], $17::bigint[])
       AS r (lane, seq, tenant, offer, strong, ord, observation, delivery, row, weak_identity, observed_ns, observed_at,
             retrieved_ns, recorded_at, run, held, due_ns);
