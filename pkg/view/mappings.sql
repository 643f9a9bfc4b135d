-- The readings that generation $1 shows: a probe for each offer, since a join might be planned as a scan of all history.
SELECT DISTINCT c.tenant, o.feed, c.mapping_version
  FROM current_offer AS c
 CROSS JOIN LATERAL (SELECT o.feed
                       FROM observation AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
                     OFFSET 0) AS o
 WHERE c.generation = $1
 ORDER BY c.tenant, o.feed, c.mapping_version;
