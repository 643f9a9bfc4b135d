-- The rows of generation $1, partition $2, of the offers ($5, $6), as far as the numbers ($3, $4) reach. What has been projected
-- since the generation was made is there and stays.
INSERT INTO current_offer (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content, observation,
                           deleted, flags, item)
SELECT t.tenant, $1, t.offer, $2, s.account, s.record, s.strong, s.ord, s.mapping_version, s.content, s.observation, s.deleted, s.flags,
       s.item
  FROM unnest($5::text[], $6::uuid[]) AS t (tenant, offer)
 CROSS JOIN LATERAL stands(t.tenant, t.offer, $3::int[], $4::bigint[]) AS s
 ORDER BY t.tenant, t.offer
    ON CONFLICT (tenant, generation, offer) DO NOTHING;
