-- What a generation must hold of the offers ($3, $4), as far as the numbers ($1, $2) reach, in the form of digest.sql.
SELECT s.tenant, s.account, s.record, s.observation IS NULL, coalesce(s.strong, false), coalesce(s.ord, 0), coalesce(s.mapping_version, 0),
       s.content, coalesce(s.observation, '00000000-0000-0000-0000-000000000000'), s.deleted, array_to_string(s.flags, ','), s.item
  FROM stands($3::text[], $4::uuid[], $1::int[], $2::bigint[]) AS s
 WHERE s.account IS NOT NULL
   AND NOT s.collected;
