-- Checkpoints of the active generation that the lane of their partition does not stand at, and revisions that no lane can
-- have given.
SELECT 'a checkpoint and the lane of its partition differ' AS what, c.lane,
       format('the checkpoint of partition %s is at offset %s, the lane at %s', c.partition, c.next, p.next) AS detail, '' AS tenant, '' AS offer
  FROM audit_v1.checkpoint AS c
  JOIN audit_v1.generation AS g ON g.id = c.generation
  LEFT JOIN audit_v1.position AS p ON p.lane = c.lane
 WHERE g.active
   AND (p.kind, p.topic_id, p.partition, p.next) IS DISTINCT FROM ('projector', c.topic_id, c.partition, c.next)
 UNION ALL
SELECT 'a revision is above the last number of its lane', c.lane, format('revision %s, the lane is at %s', o.revision, p.sequence), o.tenant,
       o.tenant || '/' || o.account || '/' || o.record
  FROM audit_v1.current_offer AS o
  JOIN audit_v1.generation AS g ON g.id = o.generation
  JOIN audit_v1.checkpoint AS c ON (c.generation, c.partition) = (o.generation, o.partition)
  JOIN audit_v1.position AS p ON p.lane = c.lane
 WHERE g.active
   AND o.revision > p.sequence
 UNION ALL
SELECT 'a revision is given twice', c.lane, format('revision %s', o.revision), min(o.tenant), min(o.tenant || '/' || o.account || '/' || o.record)
  FROM audit_v1.current_offer AS o
  JOIN audit_v1.generation AS g ON g.id = o.generation
  JOIN audit_v1.checkpoint AS c ON (c.generation, c.partition) = (o.generation, o.partition)
 WHERE g.active
   AND o.revision IS NOT NULL
 GROUP BY c.lane, o.revision
HAVING count(*) > 1
 ORDER BY 2, 3;
