-- The next $3 offers after ($1, $2) that history knows, found along its key, one probe each, however long their histories.
WITH RECURSIVE known AS (
    (SELECT o.tenant, o.offer, o.account, o.record, 1 AS n
       FROM observation AS o
      WHERE (o.tenant, o.offer) > ($1::text, $2::uuid)
      ORDER BY o.tenant, o.offer
      LIMIT 1)
     UNION ALL
    SELECT x.tenant, x.offer, x.account, x.record, k.n + 1
      FROM known AS k
     CROSS JOIN LATERAL (SELECT o.tenant, o.offer, o.account, o.record
                           FROM observation AS o
                          WHERE (o.tenant, o.offer) > (k.tenant, k.offer)
                          ORDER BY o.tenant, o.offer
                          LIMIT 1) AS x
     WHERE k.n < $3)
SELECT k.tenant, k.offer, k.account, k.record
  FROM known AS k
 ORDER BY k.n;
