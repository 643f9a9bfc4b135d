-- Note of every lane up to which number its rows are about to go with slot $1.
UPDATE relay_cursor AS c
   SET pruned = greatest(c.pruned, gone.last)
  FROM (SELECT r.lane, top.last
          FROM relay_cursor AS r
         CROSS JOIN LATERAL (SELECT o.last
                               FROM outbox AS o
                              WHERE o.slot = $1
                                AND o.lane = r.lane
                              ORDER BY o.first DESC
                              LIMIT 1) AS top
         ORDER BY r.lane
           FOR UPDATE OF r) AS gone
 WHERE c.lane = gone.lane;
