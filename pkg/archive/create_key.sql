-- A new key. Two processes may race for the same id: one row stays, and both read it.
INSERT INTO tenant_key (tenant, key_id, wrapped, created_at)
VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT DO NOTHING
