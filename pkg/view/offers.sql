-- The offers of the transaction's tenant, each as its winning observation, with the latest time that one of its claims was
-- retrieved, and how old evidence of its feed may be where that is older at $7 (nanoseconds since 1970 UTC; null: it never is).
-- Which generation is asked for is known before the first row is read, so one answer shows one generation and reads nothing of
-- another: $8, where readers may read it; null: the active one. In the order of the key, after offer $9.
SELECT o.*,
       c.flags,
       c.item,
       coalesce(p.revision, 0),
       e.seen_ns,
       coalesce(CASE WHEN $7::bigint - e.seen_ns > extract(epoch FROM (f.spec #>> '{policy,freshness}')::interval) * 1000000000
                     THEN f.spec #>> '{policy,freshness}' END, '')
  FROM current_offer AS c
  JOIN observation_row AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
 CROSS JOIN LATERAL (SELECT greatest(o.retrieved_ns, (SELECT max(s.retrieved_ns)
                                                        FROM sighting AS s
                                                       WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id)))
                     OFFSET 0) AS e (seen_ns)
  LEFT JOIN feed AS f ON (f.tenant, f.name) = (o.tenant, o.feed)
  LEFT JOIN publication AS p ON (p.tenant, p.offer) = (c.tenant, c.offer)
 WHERE c.tenant = current_tenant()
   AND c.generation = (SELECT g.id FROM readable_generation AS g WHERE CASE WHEN $8::int IS NULL THEN g.active ELSE g.id = $8 END)
   AND c.offer > $9::uuid
   AND ($1 = '' OR c.account = $1)
   AND ($2 = '' OR c.record = $2)
   AND ($3 = '' OR coalesce(c.item[1], o.mpn) = $3)
   AND ($4 OR NOT c.deleted)
   AND ($6::text[] IS NULL OR coalesce(c.item, item_fields(o.mpn, o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin)) = $6::text[])
 ORDER BY c.offer
 LIMIT nullif($5, 0);
