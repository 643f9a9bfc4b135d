-- +goose Up
-- What each start of a worker found at a lane: one row for each time that it was taken over, the last 32 of a stage and lane.
CREATE TABLE recovery (
    stage       text        NOT NULL CHECK (stage IN ('ingest', 'relay', 'project')),
    lane        int         NOT NULL,
    slot        int         NOT NULL, -- n modulo 32
    n           bigint      NOT NULL, -- counts the starts
    worker      text        NOT NULL,
    predecessor text, -- who had the lane before and did not leave it in order
    heard       bigint      NOT NULL, -- up to here somebody has heard of what was committed
    checkpoint  bigint      NOT NULL, -- up to here it was committed
    until       bigint      NOT NULL, -- the end of what was there to do
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    left_at     timestamptz,
    PRIMARY KEY (stage, lane, slot),
    CHECK (heard <= checkpoint AND checkpoint <= until)
);
ALTER TABLE recovery OWNER TO offerlog_owner;
GRANT SELECT, INSERT, UPDATE ON recovery TO offerlog_ingest, offerlog_relay, offerlog_project;
GRANT SELECT ON recovery TO offerlog_inspector;

ALTER TABLE relay_cursor ADD COLUMN published_at timestamptz;

-- reached is how far the worker has come: to where the next one found the lane, or to where it stands now.
CREATE VIEW audit_v1.recovery AS
SELECT r.stage, l.topic, l.topic_id, l.partition, r.lane, r.n, r.worker, r.predecessor, r.heard, r.checkpoint, r.until,
       coalesce(lead(r.checkpoint) OVER following, CASE r.stage WHEN 'relay' THEN c.published ELSE l.next END) AS reached,
       lead(r.n) OVER following IS NULL AS latest, r.started_at, r.left_at,
       CASE r.stage WHEN 'relay' THEN c.published_at ELSE nullif(l.clock, '-infinity') END AS moved_at
  FROM recovery AS r
  JOIN lane AS l ON l.id = r.lane
  LEFT JOIN relay_cursor AS c ON c.lane = r.lane
WINDOW following AS (PARTITION BY r.stage, r.lane ORDER BY r.n);
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
ALTER VIEW audit_v1.recovery OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON audit_v1.recovery TO offerlog_inspect;

-- What an audit needs to tell that one complete generation is shown.
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
CREATE OR REPLACE VIEW audit_v1.generation AS
SELECT g.id, g.created_at, g.retired_at, g.id = p.active AS active, g.manifest
  FROM generation AS g, generation_pointer AS p;
CREATE OR REPLACE VIEW audit_v1.checkpoint AS
SELECT p.generation, p.partition, p.topic_id, p.next, p.lane, p.publishes
  FROM projection AS p;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
