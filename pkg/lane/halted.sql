-- The lane of a partition of an input topic, locked.
SELECT l.id, l.next, coalesce(l.halt_reason, ''), coalesce(l.halt_from, 0), coalesce(l.halt_to, 0)
  FROM lane AS l
 WHERE (l.kind, l.topic, l.partition) = ('input', $1, $2)
   AND l.retired_at IS NULL
   FOR UPDATE;
