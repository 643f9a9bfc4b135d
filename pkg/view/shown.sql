-- What an offer ($1, of the transaction's tenant) was published with, the oldest first, each with when the next one came. Where no
-- claim counted any observation names the offer.
SELECT o.*,
       c.flags, c.observation IS NULL, c.item, c.revision, c.recorded_at, lead(c.recorded_at) OVER (ORDER BY c.revision)
  FROM offer_change AS c
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
 WHERE (c.tenant, c.offer) = (current_tenant(), $1::uuid)
 ORDER BY c.revision;
