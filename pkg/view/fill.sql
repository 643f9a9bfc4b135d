-- The rows of generation $1, partition $2, of the offers ($5, $6), as far as the numbers ($3, $4) reach. What has been projected
-- since the generation was made is there and stays.
INSERT INTO current_offer (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content, observation,
                           deleted, flags, item)
SELECT s.tenant, $1, s.offer, $2, s.account, s.record, s.strong, s.ord, s.mapping_version, s.content, s.observation, s.deleted, s.flags,
       s.item
  FROM stands($5::text[], $6::uuid[], $3::int[], $4::bigint[]) AS s
 WHERE s.account IS NOT NULL
   AND NOT s.collected
 ORDER BY s.tenant, s.offer
    ON CONFLICT (tenant, generation, offer) DO NOTHING;
