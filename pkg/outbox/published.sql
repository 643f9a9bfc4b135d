-- Whether slot $1 holds rows, and whether every one of them is published: one probe of the key for each lane, because the
-- row with a lane's highest numbers stands last.
SELECT EXISTS (SELECT FROM outbox AS o WHERE o.slot = $1),
       NOT EXISTS (SELECT
                     FROM lane AS l
                     LEFT JOIN relay_cursor AS c ON c.lane = l.id
                    CROSS JOIN LATERAL (SELECT o.last
                                          FROM outbox AS o
                                         WHERE o.slot = $1
                                           AND o.lane = l.id
                                         ORDER BY o.first DESC
                                         LIMIT 1) AS top
                    WHERE top.last > coalesce(c.published, 0));
