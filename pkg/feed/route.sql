-- Take the routes that a feed's spec names; those that it has already stay.
INSERT INTO feed_route (tenant, feed, source, topic)
SELECT $1, $2, $3, t FROM unnest($4::text[]) AS t ORDER BY t
ON CONFLICT (topic, source) DO NOTHING;
