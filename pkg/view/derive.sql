-- What a generation must hold of the offers ($3, $4), as far as the numbers ($1, $2) reach, in the form of digest.sql.
SELECT t.tenant, s.account, s.record, s.observation IS NULL, coalesce(s.strong, false), coalesce(s.ord, 0), coalesce(s.mapping_version, 0),
       s.content, coalesce(s.observation, '00000000-0000-0000-0000-000000000000'), s.deleted, array_to_string(s.flags, ','), s.item
  FROM unnest($3::text[], $4::uuid[]) AS t (tenant, offer)
 CROSS JOIN LATERAL stands(t.tenant, t.offer, $1::int[], $2::bigint[]) AS s;
