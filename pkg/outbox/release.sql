UPDATE relay_cursor AS c
   SET expires_at = '-infinity'
 WHERE (c.lane, c.holder, c.epoch) = ($1, $2, $3);
