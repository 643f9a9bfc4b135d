-- Replace what seals a key, unless somebody has meanwhile.
UPDATE tenant_key AS k
   SET wrapped = $4
 WHERE (k.tenant, k.key_id, k.wrapped) = ($1, $2, $3);
