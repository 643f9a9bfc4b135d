-- Prolong leases by $4, and return those that are still this holder's.
UPDATE relay_cursor AS c
   SET expires_at = clock_timestamp() + $4::interval
  FROM (SELECT r.lane, r.epoch
          FROM relay_cursor AS r
          JOIN unnest($2::int[], $3::bigint[]) AS s (lane, epoch) ON (r.lane, r.epoch) = (s.lane, s.epoch)
         WHERE r.holder = $1
         ORDER BY r.lane
           FOR UPDATE OF r) AS mine
 WHERE c.lane = mine.lane
RETURNING c.lane;
