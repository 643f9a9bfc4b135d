-- The feeds of the transaction's tenant that expect events with one of the sources.
SELECT tenant, name, mapping_version, topics, source, applied_at, delivery, spec
  FROM feed
 WHERE source = ANY ($1::text[])
 ORDER BY tenant, name;
