UPDATE generation AS g
   SET manifest = $2
 WHERE g.id = $1;
