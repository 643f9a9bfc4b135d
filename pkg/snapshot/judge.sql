-- What run $3 would do to account ($1, $2), by all that history holds: how many records are for sale now, of the account ($4) or of
-- those that the run claims; how many it claims; how many would be gone; and how many would have a price that differs by more
-- than $5 percent (null: none is asked for), where currency and unit are the same. The run claims what the readings of its pages say that
-- count.
WITH every AS MATERIALIZED (
    SELECT array_agg(l.id) AS lanes, array_agg(9223372036854775807) AS upto FROM lane AS l),
claim AS (
    SELECT DISTINCT ON (o.offer) o.offer, o.strong, o.ord, o.deleted, o.price, o.currency, o.unit, coalesce(o.per, 1) AS per
      FROM (SELECT o.*, o.delivery AS claimed_by FROM observation AS o WHERE (o.tenant, o.run) = ($1, $3)
             UNION ALL
            SELECT o.*, s.delivery
              FROM sighting AS s
              JOIN observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (s.tenant, s.offer, s.strong, s.ord, s.observation)
             WHERE (s.tenant, s.run) = ($1, $3)) AS o
     CROSS JOIN every AS a
     WHERE NOT void($1, o.feed, o.mapping_version, a.lanes, a.upto)
       AND NOT EXISTS (SELECT
                         FROM decision AS d
                        WHERE (d.tenant, d.delivery) = ($1, o.claimed_by)
                          AND d.kind = 'reading'
                          AND d.mapping_version > o.mapping_version
                          AND NOT void(d.tenant, d.feed, d.mapping_version, a.lanes, a.upto))
     ORDER BY o.offer, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC),
record AS (
    SELECT r.offer FROM snapshot_record AS r WHERE $4 AND (r.tenant, r.account) = ($1, $2)
     UNION
    SELECT c.offer FROM claim AS c)
SELECT count(*) FILTER (WHERE NOT f.deleted),
       count(c.offer),
       count(*) FILTER (WHERE NOT f.deleted
                          AND CASE WHEN c.offer IS NULL THEN NOT f.strong
                                   ELSE c.deleted AND (c.strong, c.ord) >= (f.strong, f.ord) END),
       count(*) FILTER (WHERE NOT f.deleted
                          AND NOT c.deleted
                          AND (c.strong, c.ord) >= (f.strong, f.ord)
                          AND (c.currency, c.unit) IS NOT DISTINCT FROM (w.currency, w.unit)
                          AND abs(c.price * w.per - w.price * c.per) * 100 > $5::int * w.price * c.per)
  FROM record AS r
 CROSS JOIN every AS a
  LEFT JOIN claim AS c ON c.offer = r.offer
  LEFT JOIN LATERAL fold($1, r.offer, a.lanes, a.upto, NULL) AS f ON true
  LEFT JOIN LATERAL (SELECT o.price, o.currency, o.unit, coalesce(o.per, 1) AS per
                       FROM observation AS o
                      WHERE $5::int IS NOT NULL
                        AND (o.tenant, o.offer, o.strong, o.ord, o.id) = ($1, r.offer, f.strong, f.ord, f.observation)) AS w ON true;
