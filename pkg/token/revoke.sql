-- End a token; what ended it first stays. No row where the tenant has no such token.
UPDATE token
   SET revoked_by = coalesce(revoked_by, $3), revoked_at = coalesce(revoked_at, $4)
 WHERE (tenant, id) = ($1, $2)
RETURNING id;
