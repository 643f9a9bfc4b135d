-- The deliveries of a tenant ($1) with claims behind one moment (of lanes $2 the numbers $3) and up to another ($4, $5), at most
-- $6. Deletions that snapshots imply are no delivery's.
SELECT x.delivery
  FROM (SELECT m.lane, coalesce(($3::bigint[])[array_position($2::int[], m.lane)], 0) AS after, m.upto
          FROM unnest($4::int[], $5::bigint[]) AS m (lane, upto)) AS n
 CROSS JOIN LATERAL (SELECT o.delivery
                       FROM observation AS o
                      WHERE o.lane = n.lane AND o.seq > n.after AND o.seq <= n.upto
                        AND o.tenant = $1
                        AND o.mapping_version > 0
                      UNION
                     SELECT s.delivery
                       FROM sighting AS s
                      WHERE s.lane = n.lane AND s.seq > n.after AND s.seq <= n.upto
                        AND s.tenant = $1) AS x
 ORDER BY x.delivery
 LIMIT $6;
