-- Give up the routes of a feed that its spec no longer names.
DELETE FROM feed_route
 WHERE tenant = $1 AND feed = $2 AND NOT (source = $3 AND topic = ANY ($4::text[]));
