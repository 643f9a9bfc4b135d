-- For how long feeds keep the payloads of their deliveries, those that do not keep them for ever.
SELECT f.tenant, f.name, f.spec #>> '{retention,artifacts}'
  FROM feed AS f
 WHERE f.spec #>> '{retention,artifacts}' IS NOT NULL
 ORDER BY f.tenant, f.name;
