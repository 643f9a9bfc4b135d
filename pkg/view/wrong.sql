-- Of the offers ($4, $5), which are partition $6's, those that generation $1 does not show as history says as far as the numbers
-- ($2, $3) reach.
SELECT t.tenant, coalesce(s.account, c.account), coalesce(s.record, c.record),
       CASE WHEN c.offer IS NULL THEN 'missing' WHEN s.account IS NULL THEN 'extra' ELSE 'differs' END
  FROM unnest($4::text[], $5::uuid[]) AS t (tenant, offer)
  LEFT JOIN stands($4::text[], $5::uuid[], $2::int[], $3::bigint[]) AS s ON (s.tenant, s.offer) = (t.tenant, t.offer) AND s.account IS NOT NULL AND NOT s.collected
  LEFT JOIN current_offer AS c ON (c.tenant, c.generation, c.offer) = (t.tenant, $1::int, t.offer)
 WHERE (s.account, s.record, s.strong, s.ord, s.mapping_version, s.content, s.observation, s.deleted, s.flags, s.item,
        CASE WHEN s.account IS NOT NULL THEN $6::int END)
       IS DISTINCT FROM (c.account, c.record, c.strong, c.ord, c.mapping_version, c.content, c.observation, c.deleted, c.flags, c.item, c.partition)
 ORDER BY t.tenant, t.offer;
