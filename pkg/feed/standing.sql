-- What stands of a feed before a spec of it is applied: the feed, the greatest version that a mapping of it ever had, and the digest
-- that the spec's mapping version has, if it is known. No row where the feed is new.
SELECT f.connector, f.account, f.mapping_version, f.spec, m.digest,
       (SELECT max(k.version) FROM mapping AS k WHERE (k.tenant, k.feed) = (f.tenant, f.name))
  FROM feed AS f
  LEFT JOIN mapping AS m ON (m.tenant, m.feed, m.version) = (f.tenant, f.name, $3)
 WHERE f.tenant = $1 AND f.name = $2;
