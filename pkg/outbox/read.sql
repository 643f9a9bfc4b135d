-- The rows of a lane that hold numbers above $2, in order: one probe of the key in each slot, from the row in which the
-- cursor may stand.
SELECT x.first, x.last, x.kind, x.topic, x.key, x.event_id, x.event_type, x.body, x.recorded_at
  FROM generate_series(0, 2) AS s (slot)
 CROSS JOIN LATERAL (SELECT o.first, o.last, o.kind, o.topic, o.key, o.event_id, o.event_type, o.body, o.recorded_at
                       FROM outbox AS o
                      WHERE o.slot = s.slot
                        AND o.lane = $1
                        AND o.first >= coalesce((SELECT b.first
                                                   FROM outbox AS b
                                                  WHERE b.slot = s.slot
                                                    AND b.lane = $1
                                                    AND b.first <= $2
                                                  ORDER BY b.first DESC
                                                  LIMIT 1), 0)
                        AND o.last > $2
                      ORDER BY o.first
                      LIMIT $3) AS x
 ORDER BY x.first
 LIMIT $3;
