-- The observations that a delivery of the transaction's tenant claimed, stated or restated, newest of each offer first. Its
-- receipt says where its outcome stands, and that says which numbers of the lane its claims have. They are
-- looked up one by one: of a range the planner thinks that it is long, and reads all that the tenant has beside it. Empty
-- arguments match all.
SELECT o.*
  FROM receipt AS r
  JOIN outcome AS a ON (a.lane, a."offset", a.item) = (r.lane, r."offset", r.item)
 CROSS JOIN LATERAL (SELECT DISTINCT c.offer, c.strong, c.ord, c.id
                       FROM generate_series(a.first_seq, a.last_seq) AS n (seq)
                      CROSS JOIN LATERAL (SELECT b.offer, b.strong, b.ord, b.id FROM observation AS b WHERE (b.lane, b.seq) = (a.lane, n.seq)
                                           UNION ALL
                                          SELECT s.offer, s.strong, s.ord, s.observation FROM sighting AS s WHERE (s.lane, s.seq) = (a.lane, n.seq)
                                          OFFSET 0) AS c) AS k
 CROSS JOIN LATERAL (SELECT o.*
                       FROM observation_row AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (r.tenant, k.offer, k.strong, k.ord, k.id)
                     OFFSET 0) AS o
 WHERE (r.tenant, r.delivery) = (current_tenant(), $1)
   AND ($2 = '' OR o.account = $2)
   AND ($3 = '' OR o.record = $3)
 ORDER BY o.account, o.record, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC
 LIMIT $4;
