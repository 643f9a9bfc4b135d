-- Register a feed, or its new spec.
INSERT INTO feed (tenant, name, connector, account, source, topics, mapping_version, spec, delivery, applied_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (tenant, name) DO UPDATE
   SET source = excluded.source, topics = excluded.topics, mapping_version = excluded.mapping_version,
       spec = excluded.spec, delivery = excluded.delivery, applied_at = excluded.applied_at;
