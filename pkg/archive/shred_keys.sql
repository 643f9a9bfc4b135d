-- Destroy all keys of a tenant that it still has.
UPDATE tenant_key AS k
   SET wrapped = NULL, destroyed_at = $2, pruning = $3
 WHERE k.tenant = $1
   AND k.destroyed_at IS NULL;
