-- +goose Up
-- A replay reads archived deliveries again: what was asked for, and how far it has come. The row is its lock. Its stretches say
-- which offsets of which lanes it looks at, as they stood when it was asked for: so its deliveries are fixed, whatever comes later.
CREATE TABLE replay_run (
    tenant      text        NOT NULL,
    id          uuid        NOT NULL, -- the delivery of the command that asked for it
    selection   jsonb       NOT NULL, -- as it was asked for
    lanes       int[]       NOT NULL,
    froms       bigint[]    NOT NULL,
    tos         bigint[]    NOT NULL, -- exclusive
    rate        int         NOT NULL CHECK (rate > 0), -- deliveries a second
    state       text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'cancelled', 'sent')),
    pages       int         NOT NULL DEFAULT 0, -- that were sent
    lane        int         NOT NULL DEFAULT 0, -- the last outcome that was looked at
    "offset"    bigint      NOT NULL DEFAULT 0,
    item        int         NOT NULL DEFAULT 0,
    sent        bigint      NOT NULL DEFAULT 0, -- deliveries
    answered    bigint      NOT NULL DEFAULT 0, -- of them, that have an outcome
    due         timestamptz NOT NULL,           -- of the next page
    resumed     int         NOT NULL DEFAULT 0, -- how often it went on after a pause: a page is asked for anew
    again       bool        NOT NULL DEFAULT false, -- it began again, since references of it were let go unread
    actor       text        NOT NULL,
    reason      text        NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX replay_run_due ON replay_run (due) WHERE state = 'running';
CALL protect('replay_run', ARRAY['offerlog_ingest'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT, UPDATE ON replay_run TO offerlog_ingest;

-- A page is some references to deliveries under consecutive numbers of a lane; none where what was looked at has none.
CREATE TABLE replay_page (
    tenant      text        NOT NULL,
    replay      uuid        NOT NULL,
    page        int         NOT NULL CHECK (page > 0),
    command     uuid        NOT NULL, -- the delivery that had it sent
    lane        int         NOT NULL,
    first_seq   bigint,
    last_seq    bigint,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, replay, page),
    CHECK ((first_seq IS NULL) = (last_seq IS NULL))
);
CALL protect('replay_page', ARRAY['offerlog_ingest'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT ON replay_page TO offerlog_ingest;

-- An event of `replays` is of an entry of quarantine or of a replay.
ALTER TABLE replay ALTER COLUMN entry DROP NOT NULL;
ALTER TABLE replay ADD COLUMN of_run uuid;
ALTER TABLE replay ADD CONSTRAINT replay_of_one CHECK (num_nonnulls(entry, of_run) = 1);
CREATE INDEX replay_of_run ON replay (tenant, of_run, origin_lane, origin_offset, origin_item) WHERE of_run IS NOT NULL;

GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
CREATE OR REPLACE VIEW audit_v1.replay AS
SELECT r.tenant, r.lane, r."offset", r.entry_tenant, r.entry, r.release, r.row, r.origin_lane, r.origin_offset, r.origin_item, r.of_run
  FROM replay AS r;
CREATE VIEW audit_v1.replay_run AS
SELECT r.tenant, r.id, r.selection, r.rate, r.state, r.pages, r.sent, r.answered, r.actor, r.reason, r.recorded_at
  FROM replay_run AS r;
CREATE VIEW audit_v1.replay_page AS
SELECT p.tenant, p.replay, p.page, p.command, p.lane, p.first_seq, p.last_seq, p.recorded_at
  FROM replay_page AS p;
ALTER VIEW audit_v1.replay_run OWNER TO offerlog_inspector;
ALTER VIEW audit_v1.replay_page OWNER TO offerlog_inspector;
GRANT SELECT ON audit_v1.replay_run, audit_v1.replay_page TO offerlog_inspect;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
