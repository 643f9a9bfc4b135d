-- What was last published of each offer of generation $1, with the lane that gave its revision.
SELECT v.tenant, v.account, v.record, v.revision, v.published_digest, c.lane
  FROM audit_v1.current_offer AS v
  JOIN audit_v1.checkpoint AS c ON (c.generation, c.partition) = (v.generation, v.partition)
 WHERE v.generation = $1
   AND v.revision IS NOT NULL
 ORDER BY v.tenant, v.offer;
