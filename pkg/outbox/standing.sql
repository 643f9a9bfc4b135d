SELECT c.published, l.sequence
  FROM relay_cursor AS c
  JOIN lane AS l ON l.id = c.lane
 WHERE (c.lane, c.holder, c.epoch) = ($1, $2, $3)
   AND c.halt_reason IS NULL;
