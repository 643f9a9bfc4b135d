-- Fold the offers ($5, $6) from history as far as the numbers applied of each lane ($3, $4) reach, write what ranks higher
-- than the row that stands, and return the winners that are not published as they stand now.
--
-- A claim beyond the numbers, or of a lane that has none, does not count; an observation counts if one of its claims does.
-- The newest order of an offer is the end of its range of the primary key, so the look ends behind the first observations
-- that count, however long the history. An offer of which nothing counts writes nulls, which the table refuses.
WITH folded AS (
    SELECT t.tenant, t.offer, w.*
      FROM unnest($5::text[], $6::uuid[]) AS t (tenant, offer)
      LEFT JOIN LATERAL (WITH equals AS MATERIALIZED (
                             SELECT o.account, o.record, o.strong, o.ord, o.mapping_version, o.content, o.id, o.deleted, o.revision_key
                               FROM observation AS o
                              WHERE (o.tenant, o.offer) = (t.tenant, t.offer)
                                AND (o.seq <= ($4::bigint[])[array_position($3::int[], o.lane)]
                                     OR EXISTS (SELECT
                                                  FROM sighting AS s
                                                 WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id)
                                                   AND s.seq <= ($4::bigint[])[array_position($3::int[], s.lane)]))
                              ORDER BY o.strong DESC, o.ord DESC
                              FETCH FIRST ROW WITH TIES)
                         SELECT e.account, e.record, e.strong, e.ord, e.mapping_version, e.content, e.id, e.deleted,
                                EXISTS (SELECT
                                          FROM equals AS x
                                         WHERE x.revision_key <> e.revision_key
                                           AND x.content <> e.content) AS ambiguous
                           FROM equals AS e
                          ORDER BY e.mapping_version DESC, e.content DESC, e.id DESC
                          LIMIT 1) AS w ON true
),
changed AS (
    INSERT INTO current_offer AS c (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content,
                                    observation, deleted, ambiguous)
    SELECT f.tenant, $1, f.offer, $2, f.account, f.record, f.strong, f.ord, f.mapping_version, f.content, f.id, f.deleted, f.ambiguous
      FROM folded AS f
     ORDER BY f.tenant, f.offer
        ON CONFLICT (tenant, generation, offer) DO UPDATE
       SET strong = excluded.strong, ord = excluded.ord, mapping_version = excluded.mapping_version, content = excluded.content,
           observation = excluded.observation, deleted = excluded.deleted, ambiguous = excluded.ambiguous
     -- The rank, as offer.Rank compares it; of equals, the flagged one knows more of history.
     WHERE (excluded.strong, excluded.ord, excluded.mapping_version, excluded.content, excluded.observation, excluded.ambiguous)
         > (c.strong, c.ord, c.mapping_version, c.content, c.observation, c.ambiguous)
    RETURNING c.tenant, c.offer, c.strong, c.ord, c.observation, c.ambiguous,
              sha256(c.content || boolsend(c.deleted) || boolsend(c.ambiguous)) AS digest
)
SELECT o.tenant, o.offer, o.strong, o.ord, o.id, o.lane, o.seq, o.delivery, o.row, o.feed, o.account, o.record, o.revision_key,
       o.mapping_version, o.weak_identity, o.observed_ns, o.observed_at, o.retrieved_ns, o.recorded_at, o.content, o.mpn,
       o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin, o.quantity::text, o.unit, o.per::text, o.price::text,
       o.currency, o.price_breaks, o.moq::text, o.lead_time_days::text, o.deleted,
       c.ambiguous, c.digest
  FROM changed AS c
 CROSS JOIN LATERAL (SELECT o.*
                       FROM observation AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
                     OFFSET 0) AS o -- a probe for each: a join might be planned as a scan of all history
 WHERE (SELECT p.digest FROM publication AS p WHERE (p.tenant, p.offer) = (c.tenant, c.offer)) IS DISTINCT FROM c.digest
 ORDER BY o.tenant, o.offer;
