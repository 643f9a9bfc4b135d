-- +goose Up
-- One row for each accepted delivery: its replay key is taken, and this is where its outcome stands. The janitor removes it
-- when it is older than the feed's policy.dedupe_horizon.
CREATE TABLE receipt (
    tenant           text     NOT NULL,
    delivery         uuid     NOT NULL, -- derived from the replay key
    canonicalization text     NOT NULL,
    fingerprint      bytea    NOT NULL,
    lane             int      NOT NULL,
    "offset"         bigint   NOT NULL,
    item             int      NOT NULL,
    PRIMARY KEY (tenant, delivery)
);
CALL protect('receipt', ARRAY['offerlog_ingest', 'offerlog_project', 'offerlog_janitor'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT ON receipt TO offerlog_ingest;
-- Where a delivery's outcome stands, and which numbers its claims have.
GRANT SELECT (tenant, delivery, lane, "offset", item) ON receipt TO offerlog_project;
GRANT SELECT, DELETE ON receipt TO offerlog_janitor;

-- One row for each attempt: every event of every record in [start, next) of a lane has exactly one.
CREATE TABLE outcome (
    lane             int         NOT NULL,
    "offset"         bigint      NOT NULL,
    item             int         NOT NULL, -- place in a batch of events; -1: an empty batch
    tenant           text        NOT NULL,
    delivery         uuid,                 -- null where the record has no replay key
    feed             text,
    event_source     text,
    event_id         text,
    event_type       text,
    declared         text,                 -- what names the delivery in place of the event's id; null: the id does
    outcome          text        NOT NULL CHECK (outcome IN ('accepted', 'duplicate', 'quarantined', 'skipped', 'reread')),
    reason           text,
    detail           text,
    message          text,
    canonicalization text,
    fingerprint      bytea,
    archived         bool        NOT NULL, -- its payload is entry (offset, item) of the lane's artifact that spans the offset
    accepted_lane    int,                  -- of a duplicate, a mismatch or a reading: where the first stands
    accepted_offset  bigint,
    accepted_item    int,
    mapping_version  int,
    rows             int         NOT NULL DEFAULT 0,
    saved            int         NOT NULL DEFAULT 0,
    duplicate        int         NOT NULL DEFAULT 0,
    old              int         NOT NULL DEFAULT 0,
    ambiguous_order  int         NOT NULL DEFAULT 0,
    rejected         int         NOT NULL DEFAULT 0,
    rejections       jsonb,
    warnings         jsonb,                -- of its rows, the first 1,000
    run              text,
    page             int,
    first_seq        bigint,               -- of the numbers given to its observations and sightings
    last_seq         bigint,
    result_seq       bigint,               -- of the event of delivery-results that tells it; null: none does
    beyond_horizon   bool,                 -- it was accepted before, and its receipt has expired since; null: not so
    retrieved_ns     bigint      NOT NULL,
    recorded_at      timestamptz NOT NULL,
    PRIMARY KEY (lane, "offset", item)
);
-- Accepted attempts are found through the receipt; the others, among them later readings, through this.
CREATE INDEX outcome_repeat ON outcome (tenant, delivery) WHERE outcome <> 'accepted';
CALL protect('outcome', ARRAY['offerlog_ingest', 'offerlog_project', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT ON outcome TO offerlog_ingest;
GRANT SELECT ON outcome TO offerlog_janitor;
-- Who reads history finds a delivery's part of it by the numbers that it got; what became of it else is the auditors'.
CREATE POLICY tenant_offerlog_read ON outcome FOR SELECT TO offerlog_read USING (tenant = current_tenant());
GRANT SELECT (lane, "offset", item, tenant, delivery, outcome, first_seq, last_seq) ON outcome TO offerlog_project, offerlog_read;

-- Which numbers the claims of a delivery have: those of its first reading, and of the later ones under other mapping versions.
CREATE VIEW delivery_reading WITH (security_invoker = true) AS
SELECT r.tenant, r.delivery, o.lane, o.first_seq, o.last_seq
  FROM receipt AS r
  JOIN outcome AS o ON (o.lane, o."offset", o.item) = (r.lane, r."offset", r.item)
 UNION ALL
SELECT o.tenant, o.delivery, o.lane, o.first_seq, o.last_seq
  FROM outcome AS o
 WHERE o.outcome = 'reread';
ALTER VIEW delivery_reading OWNER TO offerlog_owner;
GRANT SELECT ON delivery_reading TO offerlog_ingest, offerlog_project, offerlog_audit;

-- What was set aside: a delivery (row 0) or one row of it. The id is derived from replay key, fingerprint, row and whether
-- it is a refusal or a mismatch: another copy is another attempt.
CREATE TABLE quarantine (
    tenant           text        NOT NULL,
    id               uuid        NOT NULL,
    delivery         uuid,
    feed             text,
    row              int         NOT NULL DEFAULT 0,
    reason           text        NOT NULL,
    detail           text,
    message          text,
    line             int,
    "column"         int,
    path             text,
    event_source     text,
    event_id         text,
    canonicalization text,
    fingerprint      bytea,
    lane             int         NOT NULL, -- the first copy
    "offset"         bigint      NOT NULL,
    item             int         NOT NULL,
    archived         bool        NOT NULL,
    content          jsonb,                -- of a row in conflict: what it claimed
    observation      uuid,                 -- and the observation that it contradicts
    state            text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'resolved')),
    resolved_by      uuid,                 -- the delivery that was accepted in the end
    settled_at       timestamptz,          -- since when its state is final
    recorded_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    CHECK ((state = 'open') = (settled_at IS NULL))
);
CREATE INDEX quarantine_delivery ON quarantine (tenant, delivery) WHERE state = 'open';
CREATE INDEX quarantine_unreached ON quarantine (tenant, id) WHERE state = 'open' AND reason = 'dataref_unavailable';
CREATE INDEX quarantine_settled ON quarantine (tenant, feed, settled_at) WHERE state <> 'open';
CALL protect('quarantine', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT, UPDATE ON quarantine TO offerlog_ingest;
GRANT SELECT (tenant, id, feed, delivery, reason, lane, "offset", item, archived, state, settled_at, recorded_at), UPDATE (settled_at), DELETE ON quarantine TO offerlog_janitor;

-- A run exists from its first event or page. The row is its lock: what is decided about a run is decided under it. The janitor
-- removes it, with all that came of it, when its feed keeps runs no longer.
CREATE TABLE run (
    tenant      text        NOT NULL,
    id          uuid        NOT NULL, -- derived from tenant, feed and name
    feed        text        NOT NULL,
    name        text        NOT NULL, -- the run id of its events
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX run_recorded ON run (tenant, recorded_at);
CALL protect('run', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
-- UPDATE is what a lock of a row needs; nothing updates one.
GRANT SELECT, INSERT, UPDATE ON run TO offerlog_ingest;
GRANT SELECT, UPDATE (recorded_at), DELETE ON run TO offerlog_janitor;

-- The accepted deliveries of a run.
CREATE TABLE run_page (
    tenant      text        NOT NULL,
    run         uuid        NOT NULL,
    page        int         NOT NULL CHECK (page > 0),
    pages       int,                  -- how many there are, where the event says so
    delivery    uuid        NOT NULL,
    observed_ns bigint,               -- when the page was taken; null where nothing tells
    rejected    int         NOT NULL, -- rows
    held        bool        NOT NULL, -- its claims do not count until a decision frees them
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, run, page, delivery)
);
CREATE UNIQUE INDEX run_page_delivery ON run_page (tenant, delivery);
CALL protect('run_page', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT ON run_page TO offerlog_ingest;
GRANT SELECT, DELETE ON run_page TO offerlog_janitor;

-- What connectors said of a run.
CREATE TABLE run_event (
    tenant      text        NOT NULL,
    run         uuid        NOT NULL,
    delivery    uuid        NOT NULL, -- the event's own id, derived from its replay key
    kind        text        NOT NULL CHECK (kind IN ('started', 'completed', 'failed')),
    at          text        NOT NULL, -- when it happened, as the event says; RFC 3339 in UTC
    credential  text,                 -- with which one, by reference: never the secret
    pages       int,                  -- started: asked for; completed: fetched
    page        int,                  -- that failed
    attempt     int,                  -- at it, from 1
    error       text,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, run, delivery)
);
CALL protect('run_event', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT ON run_event TO offerlog_ingest;
GRANT SELECT, DELETE ON run_event TO offerlog_janitor;
