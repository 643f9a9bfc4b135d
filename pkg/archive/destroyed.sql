-- One of these keys that has been destroyed.
SELECT k.tenant, k.key_id
  FROM tenant_key AS k
  JOIN unnest($1::text[], $2::text[]) AS u (tenant, key_id) ON (k.tenant, k.key_id) = (u.tenant, u.key_id)
 WHERE k.destroyed_at IS NOT NULL
 LIMIT 1;
