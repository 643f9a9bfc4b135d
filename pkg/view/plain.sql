-- The rows of generation $1, partition $2, of offers that plainly show their newest observation.
INSERT INTO current_offer (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content, observation,
                           deleted, flags)
SELECT n.tenant, $1, n.offer, $2, n.account, n.record, n.strong, n.ord, n.mapping_version, n.content, n.observation, false, '{}'
  FROM unnest($3::text[], $4::uuid[], $5::text[], $6::text[], $7::bool[], $8::bigint[], $9::int[], $10::bytea[], $11::uuid[])
       AS n (tenant, offer, account, record, strong, ord, mapping_version, content, observation)
    ON CONFLICT (tenant, generation, offer) DO NOTHING;
