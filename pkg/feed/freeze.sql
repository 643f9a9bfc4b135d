-- Freeze a mapping version; one that is known stays as it is.
INSERT INTO mapping (tenant, feed, version, digest, spec, applied_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, feed, version) DO NOTHING;
