-- Take up to $4 lanes with something to publish whose lease is free, but those in $3. Of two that try, the second finds the
-- row taken and gets nothing.
INSERT INTO relay_cursor AS c (lane, holder, epoch, expires_at)
SELECT l.id, $1, 1, clock_timestamp() + $2::interval
  FROM lane AS l
  LEFT JOIN relay_cursor AS r ON r.lane = l.id
 WHERE l.sequence > coalesce(r.published, 0)
   AND r.halt_reason IS NULL
   AND coalesce(r.expires_at < clock_timestamp(), true)
   AND (l.id = ANY ($3::int[])) IS NOT TRUE -- the array may be null
 ORDER BY l.id
 LIMIT $4
    ON CONFLICT (lane) DO UPDATE
   SET holder = excluded.holder, epoch = c.epoch + 1, expires_at = excluded.expires_at
 WHERE c.expires_at < clock_timestamp()
   AND c.halt_reason IS NULL
RETURNING c.lane, c.epoch;
