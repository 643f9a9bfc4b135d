-- Fold the offers ($5, $6) from history as far as the numbers applied of each lane ($3, $4) reach, write what ranks higher
-- than the row that stands (where a decision concerns the offers, $7: what differs from it), and return the winners that are
-- not published as they stand now. What counts, and what an offer shows by it, says the function fold.
--
-- An offer of which nothing counts has no winner, and its key from any claim that is there; where none is, the statement
-- writes nulls, which the table refuses. One that shows a deletion which is collected has no row; that it is gone has no digest.
WITH folded AS (
    SELECT s.*
      FROM stands($5::text[], $6::uuid[], $3::int[], $4::bigint[]) AS s
),
changed AS (
    INSERT INTO current_offer AS c (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content,
                                    observation, deleted, flags, item)
    SELECT f.tenant, $1, f.offer, $2, f.account, f.record, f.strong, f.ord, f.mapping_version, f.content, f.observation, f.deleted,
           f.flags, f.item
      FROM folded AS f
     WHERE NOT f.collected
     ORDER BY f.tenant, f.offer
        ON CONFLICT (tenant, generation, offer) DO UPDATE
       SET strong = excluded.strong, ord = excluded.ord, mapping_version = excluded.mapping_version, content = excluded.content,
           observation = excluded.observation, deleted = excluded.deleted, flags = excluded.flags,
           item = excluded.item
     -- The rank, as offer.Rank compares it. Only a decision makes it fall, or that a snapshot has a record which it was taken to lack.
     WHERE (excluded.observation, excluded.flags, excluded.item) IS DISTINCT FROM (c.observation, c.flags, c.item)
       AND ($7 OR c.observation IS NULL OR c.mapping_version = 0
            OR (excluded.strong, excluded.ord, excluded.mapping_version, excluded.content, excluded.observation)
            >= (c.strong, c.ord, c.mapping_version, c.content, c.observation))
    RETURNING c.tenant, c.offer, c.strong, c.ord, c.observation, c.flags, c.item,
              shown_digest(c.content, c.deleted, c.flags, c.item) AS digest
),
gone AS (
    SELECT f.tenant, f.offer, f.strong, f.ord, f.observation, f.flags, f.item, NULL::bytea AS digest
      FROM folded AS f
     WHERE CASE WHEN f.collected THEN forget(f.tenant, $1, f.offer, f.strong, f.ord, f.observation) END
)
SELECT o.*,
       c.flags, c.observation IS NULL, c.item, c.digest
  FROM (SELECT * FROM changed UNION ALL SELECT * FROM gone) AS c
 -- A probe for each: a join might be planned as a scan of all history. Without a winner any observation names the offer.
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
  LEFT JOIN LATERAL (SELECT p.digest FROM publication AS p WHERE (p.tenant, p.offer) = (c.tenant, c.offer) OFFSET 0) AS p ON true
 WHERE p.digest IS DISTINCT FROM c.digest
   AND (c.observation IS NOT NULL OR p.digest IS NOT NULL) -- what nobody was shown need not be taken away
 ORDER BY o.tenant, o.offer;
