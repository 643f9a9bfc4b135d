-- For how long each feed keeps the receipts of its deliveries, and remembers deletions.
SELECT f.tenant, f.name, f.spec #>> '{policy,dedupe_horizon}', f.spec #>> '{policy,tombstone_horizon}'
  FROM feed AS f
 ORDER BY f.tenant, f.name;
