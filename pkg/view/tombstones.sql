-- Of feeds ($1, $2), those that have claimed deletions which were recorded before the time beside them in $3 and are still shown.
SELECT h.tenant, h.feed, h.before
  FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS h (tenant, feed, before)
 WHERE EXISTS (SELECT
                 FROM generation_pointer AS g
                 JOIN current_offer AS c ON (c.tenant, c.generation) = (h.tenant, g.active)
                 JOIN observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
                WHERE c.deleted
                  AND o.feed = h.feed
                  AND o.recorded_at < h.before)
 ORDER BY h.tenant, h.feed;
