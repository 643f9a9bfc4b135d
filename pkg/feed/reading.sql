-- A mapping version of a feed.
SELECT m.spec, m.digest
  FROM mapping AS m
 WHERE (m.tenant, m.feed, m.version) = ($1, $2, $3);
