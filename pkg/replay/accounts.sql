SELECT DISTINCT f.account
  FROM feed AS f
 WHERE f.tenant = $1
   AND ($2 = '' OR f.name = $2)
 ORDER BY f.account;
