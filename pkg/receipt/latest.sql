-- The places of the newest attempts of the transaction's tenant at the last $4 offsets of each input partition. Each lane is
-- read backwards by its key until there are enough, and no further: the lane's row says where it ends. Empty arguments match
-- all.
SELECT n.lane, n."offset", n.item
  FROM lane AS l
 CROSS JOIN LATERAL (SELECT o.lane, o."offset", o.item, o.recorded_at
                       FROM outcome AS o
                      WHERE o.lane = l.id
                        AND o."offset" >= l.next - $4
                        AND o.tenant = current_tenant()
                        AND ($1 = '' OR o.feed = $1)
                        AND ($2 = '' OR o.outcome = $2)
                      ORDER BY o."offset" DESC, o.item DESC
                      LIMIT $3) AS n
 WHERE l.kind = 'input'
 ORDER BY n.recorded_at DESC, n.lane DESC, n."offset" DESC, n.item DESC
 LIMIT $3;
