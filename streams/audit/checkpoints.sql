-- The checkpoints of the active generation, by partition.
SELECT c.generation, c.partition, c.topic_id, c.lane, c.next, coalesce(a.lanes, '{}'), coalesce(a.applied, '{}')
  FROM audit_v1.checkpoint AS c
  JOIN audit_v1.generation AS g ON g.id = c.generation
  LEFT JOIN LATERAL (SELECT array_agg(p.lane ORDER BY p.lane) AS lanes, array_agg(p.applied_seq ORDER BY p.lane) AS applied
                       FROM audit_v1.projection AS p
                      WHERE (p.generation, p.partition) = (c.generation, c.partition)) AS a ON true
 WHERE g.active
 ORDER BY c.partition;
