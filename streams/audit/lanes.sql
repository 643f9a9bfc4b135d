-- All lanes, with the copy of the relay's cursor.
SELECT p.lane AS id, p.kind, p.topic, p.topic_id, p.partition, p.start, p.next, p.sequence, coalesce(r.published_seq, 0) AS published
  FROM audit_v1.position AS p
  LEFT JOIN audit_v1.relay AS r ON r.lane = p.lane
 ORDER BY p.lane;
