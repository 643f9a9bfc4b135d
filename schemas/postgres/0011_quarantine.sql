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

GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
CREATE OR REPLACE VIEW audit_v1.position AS
SELECT l.topic_id, l.partition, l.next, l.id AS lane, l.kind, l.topic, l.start, l.sequence, l.clock, l.retired_at
  FROM lane AS l;

CREATE VIEW audit_v1.gap AS
SELECT l.topic_id, l.partition, g.lane, g.from_offset, g.to_offset, g.reason, g.command, g.actor, g.why, g.artifact, g.recorded_at
  FROM gap AS g
  JOIN lane AS l ON l.id = g.lane;
COMMENT ON VIEW audit_v1.gap IS 'what lanes go on without, by a recorded decision of an operator';
ALTER VIEW audit_v1.gap OWNER TO offerlog_inspector;
GRANT SELECT ON audit_v1.gap TO offerlog_inspect;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
