-- One key of a tenant, destroyed or not.
SELECT k.wrapped, k.destroyed_at IS NOT NULL
  FROM tenant_key AS k
 WHERE k.tenant = $1
   AND k.key_id = $2
