-- The generations that stand, each with the manifest of what it held when it was last found complete; null: it never was.
SELECT g.id, g.manifest
  FROM audit_v1.generation AS g
 WHERE g.retired_at IS NULL
 ORDER BY g.id;
