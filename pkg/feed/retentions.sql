-- For how long feeds keep kinds of record, those that do not keep everything for ever.
SELECT f.tenant, f.name, coalesce(f.spec #>> '{retention,runs}', ''), coalesce(f.spec #>> '{retention,quarantine}', ''),
       coalesce(f.spec #>> '{retention,artifacts}', '')
  FROM feed AS f
 WHERE f.spec -> 'retention' IS NOT NULL
 ORDER BY f.tenant, f.name;
