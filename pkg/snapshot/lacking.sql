-- The next records of account ($1, $2), behind offer $6, of which snapshot $3 as of $4 has no claim, and which something without a
-- source version claims as of before. Where $5 is false only those that the numbers of lanes ($7, $8, $9) claim.
--
-- Of the readings of a page only the newest in force says which records it has: by the decisions that are there, and by those that
-- the transaction is about to record, on readings ($11, $12, $13) and on mapping versions ($14, $15, $16).
WITH void AS MATERIALIZED (
    SELECT m.feed, m.version
      FROM (SELECT DISTINCT ON (d.feed, d.version) d.feed, d.version, d.standing
              FROM (SELECT d.feed, d.mapping_version, d.standing, d.n
                      FROM decision AS d
                     WHERE d.tenant = $1
                       AND d.kind = 'mapping'
                     UNION ALL
                    SELECT p.feed, p.version, p.standing, 2147483647
                      FROM unnest($14::text[], $15::int[], $16::smallint[]) AS p (feed, version, standing)) AS d (feed, version, standing, n)
             ORDER BY d.feed, d.version, d.n DESC) AS m
     WHERE m.standing = 0)
SELECT r.offer, r.record
  FROM snapshot_record AS r
 WHERE (r.tenant, r.account) = ($1, $2)
   AND r.offer > $6
   AND ($5 OR r.offer IN (SELECT o.offer
                            FROM unnest($7::int[], $8::bigint[], $9::bigint[]) AS b (lane, after, last)
                            JOIN observation AS o ON o.lane = b.lane AND o.seq > b.after AND o.seq <= b.last
                           WHERE o.tenant = $1))
   AND EXISTS (SELECT
                 FROM observation AS o
                WHERE (o.tenant, o.offer, o.strong) = (r.tenant, r.offer, false)
                  AND o.ord < $4
                  AND o.mapping_version > 0)
   AND NOT EXISTS (SELECT
                     FROM (SELECT o.delivery, o.feed, o.mapping_version
                             FROM observation AS o
                            WHERE (o.tenant, o.run, o.offer) = (r.tenant, $3, r.offer)
                            UNION ALL
                           SELECT s.delivery, o.feed, o.mapping_version
                             FROM sighting AS s
                             JOIN observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (s.tenant, s.offer, s.strong, s.ord, s.observation)
                            WHERE (s.tenant, s.run, s.offer) = (r.tenant, $3, r.offer)) AS c
                    WHERE c.mapping_version = 0
                       OR (c.feed, c.mapping_version) NOT IN (SELECT v.feed, v.version FROM void AS v)
                      AND NOT EXISTS (SELECT
                                        FROM (SELECT d.feed, d.mapping_version
                                                FROM decision AS d
                                               WHERE (d.tenant, d.delivery) = (r.tenant, c.delivery)
                                                 AND d.kind = 'reading'
                                               UNION ALL
                                              SELECT p.feed, p.version
                                                FROM unnest($11::uuid[], $12::text[], $13::int[]) AS p (delivery, feed, version)
                                               WHERE p.delivery = c.delivery) AS n (feed, version)
                                       WHERE n.version > c.mapping_version
                                         AND (n.feed, n.version) NOT IN (SELECT v.feed, v.version FROM void AS v)))
 ORDER BY r.offer
 LIMIT $10;
