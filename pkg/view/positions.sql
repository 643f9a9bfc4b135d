SELECT p.generation, p.partition, p.topic_id, p.lane, p.next, p.lanes, p.applied
  FROM projection AS p
 WHERE p.generation = $1
 ORDER BY p.partition;
