-- The tenant's newest key, and whether it seals new objects. Ids are k1, k2, ..., so the longer text is the greater number.
SELECT k.key_id, k.destroyed_at IS NULL AND k.retired_at IS NULL
  FROM tenant_key AS k
 WHERE k.tenant = $1
 ORDER BY length(k.key_id) DESC, k.key_id DESC
 LIMIT 1
