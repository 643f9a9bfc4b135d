UPDATE generation AS g
   SET retired_at = clock_timestamp()
 WHERE g.id = $1
   AND g.retired_at IS NULL
   AND NOT EXISTS (SELECT FROM generation_pointer AS a WHERE a.active = $1)
   AND NOT EXISTS (SELECT FROM projection AS p WHERE p.generation = $1 AND p.publishes);
