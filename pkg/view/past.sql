-- What was known of the offers of the transaction's tenant within the vector ($6, $7), as of $8 (null: whenever): each as the
-- observation that the fold shows, with its flags and the latest time that one of its claims within the vector was retrieved.
-- $5 names offers; null: all that history has, found along its key, one probe each, however long their histories.
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
                          LIMIT 1) AS n),
asked AS (
    SELECT f.offer FROM found AS f
     UNION ALL
    SELECT unnest($5::uuid[]))
SELECT o.*,
       f.flags, f.item,
       greatest(CASE WHEN o.seq <= ($7::bigint[])[array_position($6::int[], o.lane)] THEN o.retrieved_ns END,
                (SELECT max(s.retrieved_ns)
                   FROM sighting AS s
                  WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id)
                    AND s.seq <= ($7::bigint[])[array_position($6::int[], s.lane)]))
  FROM asked AS a
 CROSS JOIN LATERAL fold(current_tenant(), a.offer, $6::int[], $7::bigint[], $8::bigint) AS f
 CROSS JOIN LATERAL (SELECT o.*
                       FROM observation_row AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (current_tenant(), a.offer, f.strong, f.ord, f.observation)
                     OFFSET 0) AS o
 WHERE ($1 = '' OR f.account = $1)
   AND ($2 = '' OR coalesce(f.item[1], o.mpn) = $2)
   AND ($3 OR NOT f.deleted)
 ORDER BY f.account, f.record
 LIMIT nullif($4, 0);
