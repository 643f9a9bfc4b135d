-- The offers of partition $2 that decisions on subjects ($4) of a tenant ($3), all of kind $5, concern: those that a run or a delivery
-- has claims of, a delivery in any of its readings, that an observation or an item is of, that stand in the account of a feed or of a
-- mapping version's, of which a claim begins to count at a moment, or ends: behind the moment before; or of which a deletion is older
-- than a horizon.
WITH claimed AS (
    SELECT o.offer FROM observation AS o WHERE $5::text = 'run' AND o.tenant = $3::text AND o.run = ANY ($4::uuid[])
     UNION ALL
    SELECT s.offer FROM sighting AS s WHERE $5::text = 'run' AND s.tenant = $3::text AND s.run = ANY ($4::uuid[])
     UNION ALL
    SELECT d.offer FROM decision AS d WHERE $5::text IN ('observation', 'item') AND d.tenant = $3::text AND d.subject = ANY ($4::uuid[]) AND d.n = 1
     UNION ALL
    SELECT x.offer
      FROM delivery_reading AS a
     CROSS JOIN LATERAL (SELECT o.offer FROM observation AS o WHERE o.lane = a.lane AND o.seq BETWEEN a.first_seq AND a.last_seq
                          UNION ALL
                         SELECT s.offer FROM sighting AS s WHERE s.lane = a.lane AND s.seq BETWEEN a.first_seq AND a.last_seq) AS x
     WHERE a.tenant = $3::text
       AND a.delivery = ANY (CASE $5::text WHEN 'delivery' THEN $4::uuid[]
                                           WHEN 'reading' THEN ARRAY(SELECT d.delivery
                                                                       FROM decision AS d
                                                                      WHERE d.tenant = $3::text AND d.subject = ANY ($4::uuid[]) AND d.n = 1) END)
     UNION ALL
    SELECT c.offer
      FROM decision AS d
      JOIN current_offer AS c ON (c.tenant, c.account, c.generation) = (d.tenant, d.account, $1::int)
     WHERE $5::text IN ('feed', 'mapping') AND d.tenant = $3::text AND d.subject = ANY ($4::uuid[]) AND d.n = 1
     UNION ALL
    SELECT c.offer
      FROM decision AS d
      JOIN current_offer AS c ON (c.tenant, c.generation) = (d.tenant, $1::int)
      JOIN observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
     WHERE $5::text = 'horizon' AND d.tenant = $3::text AND d.subject = ANY ($4::uuid[])
       AND c.deleted
       AND o.feed = d.feed
       AND o.recorded_at < d.collected
     UNION ALL
    SELECT k.offer
      FROM (SELECT d.tenant, d.moment,
                   coalesce((SELECT max(before.moment)
                               FROM decision AS before
                              WHERE before.tenant = d.tenant
                                AND before.moment < d.moment
                                AND before.seq <= ($7::bigint[])[array_position($6::int[], before.lane)]), -9223372036854775808) AS after
              FROM decision AS d
             WHERE $5::text = 'due' AND d.tenant = $3::text AND d.subject = ANY ($4::uuid[]) AND d.n = 1) AS m
     CROSS JOIN LATERAL (SELECT o.offer FROM observation AS o WHERE o.tenant = m.tenant AND o.due_ns > m.after AND o.due_ns <= m.moment
                          UNION ALL
                         SELECT o.offer FROM observation AS o WHERE o.tenant = m.tenant AND o.until_ns > m.after AND o.until_ns <= m.moment
                          UNION ALL
                         SELECT s.offer FROM sighting AS s WHERE s.tenant = m.tenant AND s.due_ns > m.after AND s.due_ns <= m.moment) AS k)
SELECT c.account, c.record
  FROM (SELECT DISTINCT k.offer FROM claimed AS k) AS x
  JOIN current_offer AS c ON (c.tenant, c.generation, c.offer) = ($3::text, $1::int, x.offer)
 WHERE c.partition = $2::int
 ORDER BY x.offer;
