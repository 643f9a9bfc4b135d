-- The mapping versions of a feed, the newest first.
SELECT m.version
  FROM mapping AS m
 WHERE (m.tenant, m.feed) = ($1, $2)
 ORDER BY m.version DESC;
