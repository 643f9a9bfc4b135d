-- The rows of generation $1, by tenant and offer, each as the observation that it shows and with the revision that was published.
-- Without a winner any observation names the offer.
SELECT o.*,
       c.flags, c.observation IS NULL, c.item, shown_digest(c.content, c.deleted, c.flags, c.item), coalesce(p.revision, 0)
  FROM current_offer AS c
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
 WHERE c.generation = $1
 ORDER BY c.tenant, c.offer;
