UPDATE relay_cursor AS c
   SET halt_reason = $4, halted_at = clock_timestamp(), expires_at = '-infinity'
 WHERE (c.lane, c.holder, c.epoch) = ($1, $2, $3)
   AND c.halt_reason IS NULL;
