-- The manifest of generation $1, as far as the transaction's tenant is concerned.
SELECT m.manifest
  FROM tenant_manifest AS m
 WHERE m.generation = $1;
