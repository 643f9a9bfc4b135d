-- The offers of partition $2 that a decision on the subject ($3, $4) of kind $5 concerns: those that a run or a delivery has claims
-- of, that an observation is of, or that stand in a feed's account. A delivery's receipt says where its outcome stands, and that
-- says which numbers of the lane its claims have.
WITH claimed AS (
    SELECT o.offer FROM observation AS o WHERE $5::text = 'run' AND (o.tenant, o.run) = ($3::text, $4::uuid)
     UNION ALL
    SELECT s.offer FROM sighting AS s WHERE $5::text = 'run' AND (s.tenant, s.run) = ($3::text, $4::uuid)
     UNION ALL
    SELECT d.offer FROM decision AS d WHERE $5::text = 'observation' AND (d.tenant, d.subject, d.n) = ($3::text, $4::uuid, 1)
     UNION ALL
    SELECT x.offer
      FROM receipt AS r
      JOIN outcome AS a ON (a.lane, a."offset", a.item) = (r.lane, r."offset", r.item)
     CROSS JOIN LATERAL (SELECT o.offer FROM observation AS o WHERE o.lane = a.lane AND o.seq BETWEEN a.first_seq AND a.last_seq
                          UNION ALL
                         SELECT s.offer FROM sighting AS s WHERE s.lane = a.lane AND s.seq BETWEEN a.first_seq AND a.last_seq) AS x
     WHERE $5::text = 'delivery' AND (r.tenant, r.delivery) = ($3::text, $4::uuid)
     UNION ALL
    SELECT c.offer
      FROM decision AS d
      JOIN current_offer AS c ON (c.tenant, c.account, c.generation) = (d.tenant, d.account, $1::int)
     WHERE $5::text = 'feed' AND (d.tenant, d.subject, d.n) = ($3::text, $4::uuid, 1))
SELECT c.account, c.record
  FROM (SELECT DISTINCT k.offer FROM claimed AS k) AS x
  JOIN current_offer AS c ON (c.tenant, c.generation, c.offer) = ($3::text, $1::int, x.offer)
 WHERE c.partition = $2::int
 ORDER BY x.offer;
