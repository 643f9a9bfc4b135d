-- For how long each feed keeps the receipts of its deliveries.
SELECT f.tenant, f.name, f.spec #>> '{policy,dedupe_horizon}'
  FROM feed AS f
 ORDER BY f.tenant, f.name;
