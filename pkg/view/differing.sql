-- What generation $1 shows of the offers of partition $2 otherwise than was published, and what was published of an offer that it has
-- no row of, while generation $3 has.
WITH shown AS (
    SELECT c.tenant, c.offer, c.strong, c.ord, c.observation, c.flags, c.item,
           shown_digest(c.content, c.deleted, c.flags, c.item) AS digest
      FROM current_offer AS c
     WHERE (c.generation, c.partition) = ($1, $2)
     UNION ALL
    SELECT b.tenant, b.offer, b.strong, b.ord, b.observation, b.flags, b.item, NULL
      FROM current_offer AS b
     WHERE (b.generation, b.partition) = ($3, $2)
       AND NOT EXISTS (SELECT FROM current_offer AS c WHERE (c.tenant, c.generation, c.offer) = (b.tenant, $1, b.offer)))
SELECT o.*,
       c.flags, c.observation IS NULL, c.item, c.digest
  FROM shown AS c
  LEFT JOIN publication AS p ON (p.tenant, p.offer) = (c.tenant, c.offer)
 CROSS JOIN LATERAL ((SELECT o.*
                        FROM observation_row AS o
                       WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
                      OFFSET 0)
                     UNION ALL
                     (SELECT o.*
                        FROM observation_row AS o
                       WHERE c.observation IS NULL
                         AND (o.tenant, o.offer) = (c.tenant, c.offer)
                       LIMIT 1)) AS o
 WHERE p.digest IS DISTINCT FROM c.digest
   AND (c.observation IS NOT NULL OR p.digest IS NOT NULL)
 ORDER BY o.tenant, o.offer;
