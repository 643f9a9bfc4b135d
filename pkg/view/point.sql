UPDATE generation_pointer AS a
   SET active = $1
 WHERE a.active <> $1
   AND EXISTS (SELECT FROM generation AS g WHERE g.id = $1 AND g.retired_at IS NULL);
