-- How far the active generation has projected the partitions of the topic $1.
SELECT c.partition, c.next
  FROM audit_v1.checkpoint AS c
  JOIN audit_v1.generation AS g ON g.id = c.generation
 WHERE g.active
   AND c.topic_id = $1;
