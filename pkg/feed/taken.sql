-- The first of the topics on which another feed has the source.
SELECT topic, tenant, feed
  FROM feed_route
 WHERE topic = ANY ($1::text[]) AND source = $2 AND (tenant, feed) <> ($3, $4)
 ORDER BY topic
 LIMIT 1;
