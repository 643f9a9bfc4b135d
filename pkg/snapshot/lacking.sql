-- The next records of account ($1, $2), behind offer $6, of which snapshot $3 as of $4 has no claim, and which something without a
-- source version claims as of before. Where $5 is false only those that the numbers of lanes ($7, $8, $9) claim.
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
                     FROM observation AS o
                    WHERE (o.tenant, o.run, o.offer) = (r.tenant, $3, r.offer))
   AND NOT EXISTS (SELECT
                     FROM sighting AS s
                    WHERE (s.tenant, s.run, s.offer) = (r.tenant, $3, r.offer))
 ORDER BY r.offer
 LIMIT $10;
