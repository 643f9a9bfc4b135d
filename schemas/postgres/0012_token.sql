-- +goose Up
-- A token of the HTTP interfaces: one tenant, one role. The token itself is nowhere: sha256 is all that is known of it. Rows
-- are added by one command and ended by another, never removed: who could do what, and when, stays known.
CREATE TABLE token (
    tenant     text        NOT NULL,
    id         uuid        NOT NULL, -- derived from sha256
    name       text        NOT NULL, -- for people
    role       text        NOT NULL CHECK (role IN ('publisher', 'reader', 'auditor', 'operator', 'admin')),
    sha256     bytea       NOT NULL CHECK (length(sha256) = 32),
    created_by uuid        NOT NULL, -- the command that made it
    created_at timestamptz NOT NULL,
    expires_at timestamptz,          -- null: it does not
    revoked_by uuid,                 -- the command that ended it
    revoked_at timestamptz,
    PRIMARY KEY (tenant, id),
    CHECK ((revoked_by IS NULL) = (revoked_at IS NULL))
);
-- A token says whose it is by its digest alone: that is why this key does not begin with the tenant.
CREATE UNIQUE INDEX token_sha256 ON token (sha256);
CALL protect('token', ARRAY['offerlog_ingest'], ARRAY[]::text[]);
GRANT SELECT, INSERT, UPDATE ON token TO offerlog_ingest;
-- An auditor sees which tokens there are and were, and not their digests.
CREATE POLICY tenant_offerlog_audit ON token FOR SELECT TO offerlog_audit USING (tenant = current_tenant());
GRANT SELECT (tenant, id, name, role, created_by, created_at, expires_at, revoked_by, revoked_at) ON token TO offerlog_audit;

-- token_by_digest is all that a server may ask before it knows the tenant: who has the token of one digest. It runs with the
-- rights of a role that nobody logs in as, so the server needs none on the table: whoever takes the server over can list no
-- tokens, and can find only one whose digest is known.
GRANT CREATE ON SCHEMA public TO offerlog_inspector;
-- +goose StatementBegin
CREATE FUNCTION token_by_digest(digest bytea)
    RETURNS TABLE (tenant text, id uuid, role text, sha256 bytea, expires_at timestamptz, revoked_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER
BEGIN ATOMIC
    SELECT t.tenant, t.id, t.role, t.sha256, t.expires_at, t.revoked_at
      FROM public.token AS t
     WHERE t.sha256 = digest;
END;
-- +goose StatementEnd
ALTER FUNCTION token_by_digest(bytea) OWNER TO offerlog_inspector;
REVOKE EXECUTE ON FUNCTION token_by_digest(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION token_by_digest(bytea) TO offerlog_read;
REVOKE CREATE ON SCHEMA public FROM offerlog_inspector;

CREATE VIEW audit_v1.token AS
SELECT t.tenant, t.id, t.name, t.role, t.created_by, t.created_at, t.expires_at, t.revoked_by, t.revoked_at
  FROM token AS t;
COMMENT ON VIEW audit_v1.token IS 'who could use the HTTP interfaces, as what, and from when to when';
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
ALTER VIEW audit_v1.token OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON audit_v1.token TO offerlog_inspect;
