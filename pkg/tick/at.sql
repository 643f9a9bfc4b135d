-- The newest tick at or before $1, and whether there is a later one.
SELECT t.n, t.at, t.lanes, t.upto, EXISTS (SELECT FROM tick AS later WHERE later.n > t.n)
  FROM tick AS t
 WHERE t.at <= $1
 ORDER BY t.at DESC, t.n DESC
 LIMIT 1;
