-- The key after ($1, $2), of any tenant, that is not destroyed.
SELECT k.tenant, k.key_id, k.wrapped
  FROM tenant_key AS k
 WHERE (k.tenant, k.key_id) > ($1, $2)
   AND k.destroyed_at IS NULL
 ORDER BY k.tenant, k.key_id
 LIMIT 1;
