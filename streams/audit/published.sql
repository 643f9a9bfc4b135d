-- What was last published of each offer of generation $1, with the lane that gave its revision, and of the observation that is
-- shown its feed and when it was recorded.
SELECT v.tenant, v.account, v.record, v.revision, v.published_digest, c.lane, coalesce(o.feed, ''), o.recorded_at
  FROM audit_v1.current_offer AS v
  JOIN audit_v1.checkpoint AS c ON (c.generation, c.partition) = (v.generation, v.partition)
  LEFT JOIN audit_v1.observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (v.tenant, v.offer, v.strong, v.ord, v.winner)
 WHERE v.generation = $1
   AND v.revision IS NOT NULL
 ORDER BY v.tenant, v.offer;
