-- The versions that are missing between two that are known, of the offers $1 of the transaction's tenant or of all (null), where
-- a feed that numbers without gaps states the upper one. In the order of the primary key, so nothing is sorted.
SELECT g.account, g.record, g.feed, g.before + 1 AS first, g.ord - 1 AS last
  FROM (SELECT o.offer, o.account, o.record, o.feed, o.ord, lag(o.ord) OVER (PARTITION BY o.offer ORDER BY o.ord) AS before
          FROM observation AS o
         WHERE o.tenant = current_tenant()
           AND o.strong
           AND ($1::uuid[] IS NULL OR o.offer = ANY ($1))
           AND $2 IN ('', o.account)) AS g
 WHERE g.ord > g.before + 1
   AND g.feed IN (SELECT f.name FROM feed AS f WHERE f.tenant = current_tenant() AND f.spec -> 'sequential' = 'true')
 ORDER BY g.offer, g.ord
 LIMIT $3;
