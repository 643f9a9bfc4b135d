-- The offers that generations $1 and $2 show otherwise, by tenant, account and record: of each generation the row, with the observation
-- that it shows, as JSON; null where it has none.
SELECT coalesce((d.was).tenant, (d.now).tenant) AS tenant, coalesce((d.was).account, (d.now).account) AS account,
       coalesce((d.was).record, (d.now).record) AS record, coalesce(to_jsonb(w), '{}') || to_jsonb(d.was), coalesce(to_jsonb(n), '{}') || to_jsonb(d.now)
  FROM (SELECT a.shown AS was, b.shown AS now
          FROM (SELECT c.tenant, c.offer, c AS shown FROM current_offer AS c WHERE c.generation = $1) AS a
          FULL JOIN (SELECT c.tenant, c.offer, c AS shown FROM current_offer AS c WHERE c.generation = $2) AS b ON (b.tenant, b.offer) = (a.tenant, a.offer)
         WHERE ((a.shown).partition, (a.shown).account, (a.shown).record, (a.shown).strong, (a.shown).ord, (a.shown).mapping_version, (a.shown).content,
                (a.shown).observation, (a.shown).deleted, (a.shown).flags, (a.shown).item)
               IS DISTINCT FROM
               ((b.shown).partition, (b.shown).account, (b.shown).record, (b.shown).strong, (b.shown).ord, (b.shown).mapping_version, (b.shown).content,
                (b.shown).observation, (b.shown).deleted, (b.shown).flags, (b.shown).item)) AS d
  LEFT JOIN LATERAL (SELECT o.*
                       FROM observation_row AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = ((d.was).tenant, (d.was).offer, (d.was).strong, (d.was).ord, (d.was).observation)
                     OFFSET 0) AS w ON true
  LEFT JOIN LATERAL (SELECT o.*
                       FROM observation_row AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = ((d.now).tenant, (d.now).offer, (d.now).strong, (d.now).ord, (d.now).observation)
                     OFFSET 0) AS n ON true
 ORDER BY tenant, account, record;
