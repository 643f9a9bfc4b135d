-- Of these objects, those whose first offset their lane has passed: no transaction that begins from now on can refer to them.
SELECT u.name
  FROM unnest($1::text[], $2::uuid[], $3::int[], $4::bigint[]) AS u (name, topic_id, partition, first)
  JOIN lane AS l ON (l.kind, l.topic_id, l.partition) = ('input', u.topic_id, u.partition)
 WHERE u.first < l.next
 ORDER BY u.name;
