SELECT g.id, g.created_at, g.retired_at, g.id = a.active, g.manifest
  FROM generation AS g, generation_pointer AS a
 ORDER BY g.id;
