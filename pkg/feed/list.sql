-- The feeds of the transaction's tenant: one by name, or all where the name is empty.
SELECT tenant, name, mapping_version, topics, source, applied_at, delivery, spec
  FROM feed
 WHERE $1 IN ('', name)
 ORDER BY tenant, name;
