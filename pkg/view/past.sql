-- What was known of offers of the transaction's tenant within the vector ($6, $7), as of $8 (null: whenever). $5 names them; null: all
-- that history has, found along its key, one probe each, however long their histories.
WITH RECURSIVE found AS (
    (SELECT o.offer
       FROM observation AS o
      WHERE o.tenant = current_tenant()
        AND $5::uuid[] IS NULL
      ORDER BY o.offer
      LIMIT 1)
     UNION ALL
    SELECT n.offer
      FROM found AS f
     CROSS JOIN LATERAL (SELECT o.offer
                           FROM observation AS o
                          WHERE o.tenant = current_tenant()
                            AND o.offer > f.offer
                          ORDER BY o.offer
                          LIMIT 1) AS n)
SELECT (k.observation).*, k.flags, k.item, k.retrieved_ns
  FROM known(coalesce($5::uuid[], ARRAY(SELECT f.offer FROM found AS f)), $6::int[], $7::bigint[], $8::bigint) AS k
 WHERE $1 IN ('', (k.observation).account)
   AND $2 IN ('', coalesce(k.item[1], (k.observation).mpn))
   AND ($3 OR NOT (k.observation).deleted)
 ORDER BY (k.observation).account, (k.observation).record
 LIMIT nullif($4, 0);
