-- The next offers of partition $2 that a decision on the subject ($3, $4) of kind $5 concerns, behind offer $6: those that a run
-- has claims of, or that an observation is of.
SELECT DISTINCT ON (x.offer) c.account, c.record
  FROM (SELECT o.offer FROM observation AS o WHERE $5 = 'run' AND (o.tenant, o.run) = ($3, $4) AND o.offer > $6
         UNION ALL
        SELECT s.offer FROM sighting AS s WHERE $5 = 'run' AND (s.tenant, s.run) = ($3, $4) AND s.offer > $6
         UNION ALL
        SELECT d.offer FROM decision AS d WHERE $5 = 'observation' AND (d.tenant, d.subject) = ($3, $4) AND d.offer > $6) AS x
  JOIN current_offer AS c ON (c.tenant, c.generation, c.offer) = ($3, $1, x.offer)
 WHERE c.partition = $2
 ORDER BY x.offer
 LIMIT $7;
