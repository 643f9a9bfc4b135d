-- The tokens of the transaction's tenant, those that were revoked or have expired among them, the oldest first.
SELECT id, name, role, created_at, expires_at, revoked_at
  FROM token
 ORDER BY created_at, id;
