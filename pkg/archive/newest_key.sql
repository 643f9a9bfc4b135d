-- The tenant's newest key, destroyed or not. Ids are k1, k2, ..., so the longer text is the greater number.
SELECT key_id, wrapped, destroyed_at IS NOT NULL AS destroyed
  FROM tenant_key
 WHERE tenant = $1
 ORDER BY length(key_id) DESC, key_id DESC
 LIMIT 1
