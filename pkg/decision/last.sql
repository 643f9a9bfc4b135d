SELECT d.standing
  FROM decision AS d
 WHERE (d.tenant, d.subject) = ($1, $2)
 ORDER BY d.n DESC
 LIMIT 1;
