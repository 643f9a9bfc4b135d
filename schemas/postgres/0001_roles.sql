-- +goose Up
-- Roles belong to the whole server, so another database may have made them; two migrations at once may both try.
-- Nobody logs in as one of these: a login is made a member of those that it needs, and every transaction picks one.
-- +goose StatementBegin
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['offerlog_owner', 'offerlog_inspector', 'offerlog_ingest', 'offerlog_relay', 'offerlog_project',
                             'offerlog_janitor', 'offerlog_inspect', 'offerlog_read', 'offerlog_audit'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS', r);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;
    -- Who gives an object away must be a member of its new owner, and a superuser is of every role. From PostgreSQL 16 on
    -- whoever makes a role is a member that may only administer it.
    FOREACH r IN ARRAY ARRAY['offerlog_owner', 'offerlog_inspector'] LOOP
        IF current_setting('server_version_num')::int < 160000 THEN
            IF NOT pg_has_role(r, 'MEMBER') THEN
                EXECUTE format('GRANT %I TO CURRENT_USER', r);
            END IF;
        ELSIF NOT (pg_has_role(r, 'USAGE') AND pg_has_role(r, 'SET')) THEN
            EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT TRUE, SET TRUE', r);
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

GRANT CREATE, USAGE ON SCHEMA public TO offerlog_owner;
GRANT USAGE ON SCHEMA public TO offerlog_inspector, offerlog_ingest, offerlog_relay, offerlog_project, offerlog_janitor,
    offerlog_read, offerlog_audit;

-- current_tenant is the tenant of this transaction, and null where none is set: '' equals unset.
CREATE FUNCTION current_tenant() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('offerlog.tenant', true), '');

-- +goose StatementBegin
-- protect makes a table what every tenant table is: owned by a role that nobody logs in as, row-level security enabled and
-- forced, no row for anybody. Grants and policies are added one by one: workers (all tenants), readers (their tenant).
CREATE PROCEDURE protect(tab regclass, workers text[], readers text[])
    LANGUAGE plpgsql AS $$
DECLARE
    r text;
BEGIN
    EXECUTE format('ALTER TABLE %s OWNER TO offerlog_owner', tab);
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tab);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tab);
    FOREACH r IN ARRAY workers || ARRAY['offerlog_inspector'] LOOP
        EXECUTE format('CREATE POLICY %I ON %s TO %I USING (true) WITH CHECK (true)', 'worker_' || r, tab, r);
    END LOOP;
    FOREACH r IN ARRAY readers LOOP
        EXECUTE format('CREATE POLICY %I ON %s FOR SELECT TO %I USING (tenant = current_tenant())', 'tenant_' || r, tab, r);
        EXECUTE format('GRANT SELECT ON %s TO %I', tab, r);
    END LOOP;
    EXECUTE format('GRANT SELECT ON %s TO offerlog_inspector', tab);
END
$$;
-- +goose StatementEnd
