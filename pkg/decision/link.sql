SELECT CASE WHEN d.standing > 0 THEN d.item END
  FROM decision AS d
 WHERE (d.tenant, d.subject) = ($1, $2)
 ORDER BY d.n DESC
 LIMIT 1;
