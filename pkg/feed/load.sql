-- Load the registry: its version and every feed with the mapping version in force, in one snapshot. No row where the
-- version is $1, one row without a feed where there is no feed.
SELECT r.version, f.tenant, f.name, f.connector, f.account, f.source, f.topics, f.spec -> 'identity' AS identity,
       f.mapping_version, f.spec -> 'policy' AS policy, f.spec ->> 'mode' AS mode, coalesce(f.spec -> 'sequential' = 'true', false) AS sequential,
       ARRAY(SELECT h.host FROM jsonb_array_elements_text(f.spec #> '{dataref,hosts}') AS h (host)) AS data_hosts,
       m.digest, m.spec AS reading
  FROM registry AS r
  LEFT JOIN feed AS f ON true
  LEFT JOIN mapping AS m ON (m.tenant, m.feed, m.version) = (f.tenant, f.name, f.mapping_version)
 WHERE r.version <> $1
 ORDER BY f.tenant, f.name;
