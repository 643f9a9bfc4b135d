-- The lanes with events that the relay has not published yet, as far as the copy of its cursor knows, and the halted ones.
SELECT l.id, coalesce(c.halt_reason, ''),
       c.halt_reason IS NULL AND coalesce(c.expires_at < clock_timestamp(), true) AS free
  FROM lane AS l
  LEFT JOIN relay_cursor AS c ON c.lane = l.id
 WHERE l.sequence > coalesce(c.published, 0)
    OR c.halt_reason IS NOT NULL
 ORDER BY l.id;
