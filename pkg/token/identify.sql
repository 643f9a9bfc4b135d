-- Whose the token of one digest is; no row where there is none.
SELECT tenant, id, role, sha256, expires_at, revoked_at
  FROM token_by_digest($1);
