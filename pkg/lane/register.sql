INSERT INTO lane (id, kind, topic, topic_id, partition, start, next)
SELECT (SELECT coalesce(max(l.id), 0) FROM lane AS l) + row_number() OVER (ORDER BY s.partition),
       $1, $2, $3, s.partition - 1, s.start, s.start
  FROM unnest($4::bigint[]) WITH ORDINALITY AS s (start, partition)
 WHERE NOT EXISTS (SELECT FROM lane AS l WHERE (l.kind, l.topic_id, l.partition) = ($1, $3, s.partition - 1));
