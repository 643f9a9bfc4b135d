-- Store a token; one whose digest is known stays as it is, and is not returned.
INSERT INTO token (tenant, id, name, role, sha256, created_by, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (sha256) DO NOTHING
RETURNING id;
