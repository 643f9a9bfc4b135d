-- One key of a tenant, destroyed or not.
SELECT key_id, wrapped, destroyed_at IS NOT NULL AS destroyed
  FROM tenant_key
 WHERE tenant = $1
   AND key_id = $2
