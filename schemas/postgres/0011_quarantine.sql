-- +goose Up
-- A lane whose topic was made again is retired by an operator's decision: it keeps what it has stored, and the new topic gets
-- lanes of its own.
ALTER TABLE lane ADD COLUMN retired_at timestamptz;

-- What a lane goes on without, by an operator's decision: the range that its log did not hold when it was halted.
CREATE TABLE gap (
    lane        int         NOT NULL,
    command     uuid        NOT NULL, -- the delivery that decided it; derived where the commands could not be read
    from_offset bigint      NOT NULL,
    to_offset   bigint      NOT NULL, -- exclusive
    reason      text        NOT NULL, -- of the halt
    actor       text        NOT NULL,
    why         text        NOT NULL,
    artifact    text,                 -- of a decision that no topic holds: the object that keeps it
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (lane, command)
);
ALTER TABLE gap OWNER TO offerlog_owner;
GRANT SELECT, INSERT ON gap TO offerlog_ingest;
GRANT SELECT ON gap TO offerlog_inspector, offerlog_audit;

-- What was decided about what is set aside: one row for each decision on an entry, never changed. A decision that sends the
-- evidence through ingest again is an event of `replays`, under the next number of a lane.
ALTER TABLE quarantine DROP CONSTRAINT quarantine_state_check;
ALTER TABLE quarantine ADD CONSTRAINT quarantine_state_check CHECK (state IN ('open', 'released', 'rejected', 'resolved'));
CREATE TABLE quarantine_decision (
    tenant      text        NOT NULL,
    entry       uuid        NOT NULL,
    n           int         NOT NULL CHECK (n > 0),
    verdict     text        NOT NULL CHECK (verdict IN ('released', 'rejected', 'redriven')),
    delivery    uuid,                 -- the entry's
    release     int         NOT NULL, -- the number of the correction among those of the delivery; 0: under the event's own id
    actor       text        NOT NULL,
    reason      text        NOT NULL,
    command     uuid        NOT NULL, -- the delivery that decided it
    lane        int,                  -- of the event of `replays`
    seq         bigint,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, entry, n),
    CHECK ((verdict = 'rejected') = (lane IS NULL) AND (lane IS NULL) = (seq IS NULL))
);
CREATE UNIQUE INDEX quarantine_decision_lane ON quarantine_decision (lane, seq) WHERE lane IS NOT NULL;
CREATE UNIQUE INDEX quarantine_decision_release ON quarantine_decision (tenant, delivery, release) WHERE release > 0;
CALL protect('quarantine_decision', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT ON quarantine_decision TO offerlog_ingest;
GRANT SELECT (tenant, entry, verdict, recorded_at) ON quarantine_decision TO offerlog_janitor; -- how often something was tried

-- What an event of `replays` was: whose evidence it is, by place, and what was wanted. Its outcome stands at its own place.
CREATE TABLE replay (
    tenant        text   NOT NULL, -- of the outcome
    lane          int    NOT NULL,
    "offset"      bigint NOT NULL,
    entry_tenant  text   NOT NULL,
    entry         uuid   NOT NULL,
    release       int    NOT NULL,
    row           int    NOT NULL, -- 0: the whole delivery
    origin_lane   int    NOT NULL,
    origin_offset bigint NOT NULL,
    origin_item   int    NOT NULL,
    PRIMARY KEY (tenant, lane, "offset")
);
CALL protect('replay', ARRAY['offerlog_ingest'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT ON replay TO offerlog_ingest;
-- Evidence is found by its place.
GRANT SELECT ON artifact TO offerlog_ingest;

GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
CREATE OR REPLACE VIEW audit_v1.position AS
SELECT l.topic_id, l.partition, l.next, l.id AS lane, l.kind, l.topic, l.start, l.sequence, l.clock, l.retired_at
  FROM lane AS l;

CREATE VIEW audit_v1.gap AS
SELECT l.topic_id, l.partition, g.lane, g.from_offset, g.to_offset, g.reason, g.command, g.actor, g.why, g.artifact, g.recorded_at
  FROM gap AS g
  JOIN lane AS l ON l.id = g.lane;
COMMENT ON VIEW audit_v1.gap IS 'what lanes go on without, by a recorded decision of an operator';
CREATE VIEW audit_v1.quarantine_decision AS
SELECT d.tenant, d.entry, d.n, d.verdict, d.delivery, d.release, d.actor, d.reason, d.command, d.lane, d.seq, d.recorded_at
  FROM quarantine_decision AS d;
CREATE VIEW audit_v1.replay AS
SELECT r.tenant, r.lane, r."offset", r.entry_tenant, r.entry, r.release, r.row, r.origin_lane, r.origin_offset, r.origin_item
  FROM replay AS r;
ALTER VIEW audit_v1.quarantine_decision OWNER TO offerlog_inspector;
ALTER VIEW audit_v1.replay OWNER TO offerlog_inspector;
GRANT SELECT ON audit_v1.quarantine_decision, audit_v1.replay TO offerlog_inspect;
ALTER VIEW audit_v1.gap OWNER TO offerlog_inspector;
GRANT SELECT ON audit_v1.gap TO offerlog_inspect;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
