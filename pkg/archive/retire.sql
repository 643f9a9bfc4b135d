-- Retire the newest key of a tenant, so that the next object gets a new one.
UPDATE tenant_key AS k
   SET retired_at = $2
 WHERE k.tenant = $1
   AND k.destroyed_at IS NULL
   AND k.retired_at IS NULL
RETURNING k.key_id;
