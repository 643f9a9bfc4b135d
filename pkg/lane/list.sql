SELECT l.id, l.kind, l.topic, l.topic_id, l.partition, l.start, l.next, l.sequence, nullif(l.clock, '-infinity'),
       coalesce(l.halt_reason, ''), coalesce(l.halt_from, 0), coalesce(l.halt_to, 0)
  FROM lane AS l
 WHERE ($1 = '' OR l.kind = $1)
   AND ($2 = '' OR l.topic = $2)
   AND l.retired_at IS NULL
 ORDER BY l.kind, l.topic, l.partition;
