UPDATE relay_cursor AS c
   SET published = greatest(c.published, $4), published_at = clock_timestamp()
 WHERE (c.lane, c.holder, c.epoch) = ($1, $2, $3);
