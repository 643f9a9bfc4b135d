-- +goose Up
-- When each of the janitor's tasks is due again. Whoever does one holds its row locked meanwhile, so each is done by one
-- process at a time.
CREATE TABLE janitor_task (
    task   text        PRIMARY KEY,
    due_at timestamptz NOT NULL
);
ALTER TABLE janitor_task OWNER TO offerlog_owner;
GRANT SELECT, INSERT, UPDATE ON janitor_task TO offerlog_janitor;
GRANT SELECT ON janitor_task TO offerlog_inspector;

-- The journal grows by a row for each lane and batch: what lies behind is put together.
GRANT SELECT, UPDATE, DELETE ON commit_journal TO offerlog_janitor;

-- What was removed on purpose: a receipt for each removal. What is gone without one is a loss.
CREATE TABLE pruning (
    tenant      text        NOT NULL,
    id          uuid        NOT NULL, -- of the command that asked for it, or derived from what follows
    kind        text        NOT NULL CHECK (kind IN ('keys', 'artifacts', 'runs', 'quarantine')),
    feed        text,                 -- whose retention it was; null: of the whole tenant
    before      timestamptz,          -- what was recorded before it has gone; null: as each feed keeps it, or all
    removed     bigint      NOT NULL, -- how many of the kind
    actor       text,                 -- who decided, where somebody did
    reason      text        NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CALL protect('pruning', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT INSERT ON pruning TO offerlog_ingest, offerlog_janitor;

CREATE VIEW audit_v1.pruning AS
SELECT p.tenant, p.id, p.kind, p.feed, p.before, p.removed, p.actor, p.reason, p.recorded_at
  FROM pruning AS p;
COMMENT ON VIEW audit_v1.pruning IS 'what was removed on purpose: a receipt for each removal';
CREATE VIEW audit_v1.tenant_key AS
SELECT k.tenant, k.key_id, k.created_at, k.retired_at, k.destroyed_at, k.pruning
  FROM tenant_key AS k;
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
ALTER VIEW audit_v1.pruning OWNER TO offerlog_inspector;
ALTER VIEW audit_v1.tenant_key OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON audit_v1.pruning, audit_v1.tenant_key TO offerlog_inspect;

-- What the janitor must see to know what something still needs.
CREATE POLICY worker_offerlog_janitor ON observation FOR SELECT TO offerlog_janitor USING (true);
CREATE POLICY worker_offerlog_janitor ON sighting FOR SELECT TO offerlog_janitor USING (true);
CREATE POLICY worker_offerlog_janitor ON decision FOR SELECT TO offerlog_janitor USING (true);
GRANT SELECT (lane, seq, run, held) ON observation TO offerlog_janitor;
GRANT SELECT (lane, seq, run, held) ON sighting TO offerlog_janitor;
GRANT SELECT (tenant, subject, n, verdict, recorded_at) ON decision TO offerlog_janitor;
