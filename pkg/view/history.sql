-- The next $3 offers after ($1, $2) that history knows, each with the newest observation of it, and whether that is plainly what the
-- offer shows: by the rule of candidates and fold, where nothing that they look up can make a difference. It stands alone at its
-- place in the order, is no deletion, has its item, waits for no time and ends at none; nothing was ever decided about it, its feed,
-- its reading, its delivery or items of the offer; and it is of no run, or of one that counts by the decision that is named with it.
WITH known AS MATERIALIZED (
    SELECT DISTINCT o.tenant, o.offer
      FROM observation AS o
     WHERE (o.tenant, o.offer) > ($1::text, $2::uuid)
     ORDER BY o.tenant, o.offer
     LIMIT $3)
SELECT k.tenant, k.offer, o.account, o.record, o.strong, o.ord, o.mapping_version, o.content, o.id, o.lane, o.seq, r.lane, r.seq,
       o.mapping_version > 0 AND NOT o.deleted AND NOT o.unresolved AND o.due_ns IS NULL AND o.until_ns IS NULL
       AND (o.run IS NULL OR coalesce(r.standing = 2, false))
       AND NOT EXISTS (SELECT
                         FROM observation AS x
                        WHERE (x.tenant, x.offer, x.strong, x.ord) = (o.tenant, o.offer, o.strong, o.ord)
                          AND x.id < o.id)
       AND NOT ((SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'feed'))
                AND EXISTS (SELECT FROM decision AS d WHERE (d.tenant, d.feed) = (o.tenant, o.feed) AND d.kind = 'feed'))
       AND NOT ((SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'mapping'))
                AND EXISTS (SELECT
                              FROM decision AS d
                             WHERE (d.tenant, d.feed, d.mapping_version) = (o.tenant, o.feed, o.mapping_version) AND d.kind = 'mapping'))
       AND NOT ((SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'observation'))
                AND EXISTS (SELECT FROM decision AS d WHERE (d.tenant, d.subject) = (o.tenant, o.id) AND d.kind = 'observation'))
       AND NOT ((SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'delivery'))
                AND EXISTS (SELECT FROM decision AS d WHERE (d.tenant, d.subject) = (o.tenant, o.delivery) AND d.kind = 'delivery'))
       AND NOT ((SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'reading'))
                AND EXISTS (SELECT FROM decision AS d WHERE (d.tenant, d.delivery) = (o.tenant, o.delivery) AND d.kind = 'reading'))
       AND NOT ((SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'item'))
                AND EXISTS (SELECT FROM decision AS d WHERE (d.tenant, d.offer) = (o.tenant, o.offer) AND d.kind = 'item'))
  FROM known AS k
 CROSS JOIN LATERAL (SELECT x.*
                       FROM observation AS x
                      WHERE (x.tenant, x.offer) = (k.tenant, k.offer)
                      ORDER BY x.strong DESC, x.ord DESC, x.id DESC
                      LIMIT 1) AS o
  LEFT JOIN LATERAL (SELECT d.lane, d.seq, d.standing
                       FROM decision AS d
                      WHERE (d.tenant, d.subject) = (o.tenant, o.run)
                      ORDER BY d.n DESC
                      LIMIT 1) AS r ON true
 ORDER BY k.tenant, k.offer;
