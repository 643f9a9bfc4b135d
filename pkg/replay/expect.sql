-- What comes of the delivery at each of places ($2, $3, $4) of tenant $1 when it is read again, in their order: its evidence is gone; or
-- it has no receipt any more; or it is a repeat; or, under another mapping version ($5), it is read so where it has a receipt.
SELECT o.delivery,
       CASE WHEN a.state IS DISTINCT FROM 'stored' THEN 'quarantined'
            WHEN $5 THEN CASE WHEN r.delivery IS NULL THEN 'quarantined' ELSE 'reread' END
            WHEN r.delivery IS NULL THEN 'accepted'
            ELSE 'duplicate' END
  FROM unnest($2::int[], $3::bigint[], $4::int[]) WITH ORDINALITY AS p (lane, "offset", item, n)
  JOIN outcome AS o ON (o.lane, o."offset", o.item) = (p.lane, p."offset", p.item)
  JOIN lane AS l ON l.id = o.lane
  LEFT JOIN receipt AS r ON (r.tenant, r.delivery) = (o.tenant, o.delivery)
  LEFT JOIN LATERAL (SELECT a.state
                       FROM artifact AS a
                      WHERE o.archived
                        AND (a.tenant, a.topic_id, a.partition) = (o.tenant, l.topic_id, l.partition)
                        AND a.first <= o."offset"
                      ORDER BY a.first DESC
                      LIMIT 1) AS a ON true
 WHERE o.tenant = $1
 ORDER BY p.n;
