-- How far ingest has stored the partitions of the topics $1, the last number that each lane had given by then, and what the
-- relay has published of it.
SELECT p.topic_id, p.partition, p.next, p.sequence, coalesce(r.published_seq, 0),
       coalesce((SELECT min(h.reason) FROM audit_v1.halt AS h WHERE h.lane = p.lane), '')
  FROM audit_v1.position AS p
  LEFT JOIN audit_v1.relay AS r ON r.lane = p.lane
 WHERE p.kind = 'input'
   AND p.topic_id = ANY ($1);
