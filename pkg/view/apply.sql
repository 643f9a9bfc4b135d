-- Fold the offers ($5, $6) from history as far as the numbers applied of each lane ($3, $4) reach, write what ranks higher
-- than the row that stands (where a decision concerns the offers, $7: what differs from it), and return the winners that are
-- not published as they stand now.
--
-- A claim beyond the numbers, or of a lane that has none, is not there. One of a run stands as the last decision on the run
-- says that the numbers cover: 0, it does not count; 1, it counts as a part; 2, it counts. An observation stands as the best of
-- its claims, unless a decision supersedes it; a deletion that a snapshot implies (mapping version 0) is out as soon as a newer
-- snapshot of its account counts.
--
-- The newest order of an offer is the end of its range of the primary key, so the look ends behind the first observations
-- that count, however long the history. An offer of which nothing counts has no winner, and its key from any claim that is
-- there; where none is, the statement writes nulls, which the table refuses.
WITH folded AS (
    SELECT t.tenant, t.offer, w.*
      FROM unnest($5::text[], $6::uuid[]) AS t (tenant, offer)
      LEFT JOIN LATERAL (WITH equals AS MATERIALIZED (
                             SELECT o.account, o.record, o.strong, o.ord, o.mapping_version, o.content, o.id, o.deleted, o.revision_key,
                                    c.standing
                               FROM observation AS o
                              CROSS JOIN LATERAL (
                                  SELECT CASE WHEN o.seq <= ($4::bigint[])[array_position($3::int[], o.lane)] AND o.run IS NULL THEN 2
                                              ELSE greatest(
                                                   CASE WHEN o.seq <= ($4::bigint[])[array_position($3::int[], o.lane)]
                                                        THEN coalesce((SELECT d.standing
                                                                         FROM decision AS d
                                                                        WHERE (d.tenant, d.subject) = (o.tenant, o.run)
                                                                          AND d.seq <= ($4::bigint[])[array_position($3::int[], d.lane)]
                                                                        ORDER BY d.n DESC
                                                                        LIMIT 1), CASE WHEN o.held THEN 0 ELSE 1 END) END,
                                                   (SELECT max(CASE WHEN s.run IS NULL THEN 2
                                                                    ELSE coalesce((SELECT d.standing
                                                                                     FROM decision AS d
                                                                                    WHERE (d.tenant, d.subject) = (s.tenant, s.run)
                                                                                      AND d.seq <= ($4::bigint[])[array_position($3::int[], d.lane)]
                                                                                    ORDER BY d.n DESC
                                                                                    LIMIT 1), CASE WHEN s.held THEN 0 ELSE 1 END) END)
                                                      FROM sighting AS s
                                                     WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id)
                                                       AND s.seq <= ($4::bigint[])[array_position($3::int[], s.lane)])) END AS standing) AS c
                              WHERE (o.tenant, o.offer) = (t.tenant, t.offer)
                                AND c.standing > 0
                                AND (NOT (SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'observation'))
                                     OR coalesce((SELECT d.standing
                                                    FROM decision AS d
                                                   WHERE (d.tenant, d.subject) = (o.tenant, o.id)
                                                     AND d.seq <= ($4::bigint[])[array_position($3::int[], d.lane)]
                                                   ORDER BY d.n DESC
                                                   LIMIT 1), 2) > 0)
                                AND (o.mapping_version > 0
                                     OR NOT EXISTS (SELECT
                                                      FROM decision AS d
                                                     WHERE (d.tenant, d.account) = (o.tenant, o.account)
                                                       AND (d.as_of, d.subject) > (o.ord, o.run)
                                                       AND d.as_of IS NOT NULL
                                                       AND d.seq <= ($4::bigint[])[array_position($3::int[], d.lane)]
                                                       AND NOT EXISTS (SELECT
                                                                         FROM decision AS later
                                                                        WHERE (later.tenant, later.subject) = (d.tenant, d.subject)
                                                                          AND later.n > d.n
                                                                          AND later.seq <= ($4::bigint[])[array_position($3::int[], later.lane)])))
                              ORDER BY o.strong DESC, o.ord DESC
                              FETCH FIRST ROW WITH TIES)
                         SELECT e.account, e.record, e.strong, e.ord, e.mapping_version, e.content, e.id, e.deleted,
                                array_remove(ARRAY[CASE WHEN EXISTS (SELECT
                                                                       FROM equals AS x
                                                                      WHERE x.revision_key <> e.revision_key
                                                                        AND x.content <> e.content
                                                                        AND x.mapping_version > 0) THEN 'ambiguous_order' END,
                                                   CASE WHEN e.standing = 1 THEN 'partial_run' END], NULL) AS flags
                           FROM equals AS e
                          ORDER BY e.mapping_version DESC, e.content DESC, e.id DESC
                          LIMIT 1) AS w ON true
),
changed AS (
    INSERT INTO current_offer AS c (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content,
                                    observation, deleted, flags)
    SELECT f.tenant, $1, f.offer, $2, coalesce(f.account, k.account), coalesce(f.record, k.record), f.strong, f.ord, f.mapping_version,
           f.content, f.id, coalesce(f.deleted, true), coalesce(f.flags, '{}')
      FROM folded AS f
      LEFT JOIN LATERAL (SELECT o.account, o.record
                           FROM observation AS o
                          WHERE f.id IS NULL
                            AND (o.tenant, o.offer) = (f.tenant, f.offer)
                            AND (o.seq <= ($4::bigint[])[array_position($3::int[], o.lane)]
                                 OR EXISTS (SELECT
                                              FROM sighting AS s
                                             WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id)
                                               AND s.seq <= ($4::bigint[])[array_position($3::int[], s.lane)]))
                          LIMIT 1) AS k ON true
     ORDER BY f.tenant, f.offer
        ON CONFLICT (tenant, generation, offer) DO UPDATE
       SET strong = excluded.strong, ord = excluded.ord, mapping_version = excluded.mapping_version, content = excluded.content,
           observation = excluded.observation, deleted = excluded.deleted, flags = excluded.flags
     -- The rank, as offer.Rank compares it. Only a decision makes it fall.
     WHERE (excluded.observation, excluded.flags) IS DISTINCT FROM (c.observation, c.flags)
       AND ($7 OR c.observation IS NULL
            OR (excluded.strong, excluded.ord, excluded.mapping_version, excluded.content, excluded.observation)
            >= (c.strong, c.ord, c.mapping_version, c.content, c.observation))
    RETURNING c.tenant, c.offer, c.strong, c.ord, c.observation, c.flags,
              sha256(coalesce(c.content, '') || boolsend(c.deleted) || convert_to(array_to_string(c.flags, ','), 'UTF8')) AS digest
)
SELECT o.*,
       c.flags, c.observation IS NULL, c.digest
  FROM changed AS c
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
