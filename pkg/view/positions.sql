SELECT p.generation, p.partition, p.topic_id, p.lane, p.next, p.lanes, p.applied
  FROM projection AS p
 ORDER BY p.generation, p.partition;
