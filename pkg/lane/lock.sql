-- Lock the lanes of a batch in one order, and return those that stand where this worker believes they do. A lane that
-- somebody else has moved meanwhile is not returned: the worker is fenced there.
SELECT l.id, l.sequence, nullif(l.clock, '-infinity')
  FROM lane AS l
  JOIN unnest($1::int[], $2::bigint[]) AS s (id, expected) ON (l.id, l.next) = (s.id, s.expected)
 WHERE l.halt_reason IS NULL
   AND l.retired_at IS NULL
 ORDER BY l.id
   FOR UPDATE OF l;
