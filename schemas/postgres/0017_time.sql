-- +goose Up
-- Moments that reads of the past stand on: by that time each lane of an input topic had reached that number. Times and numbers
-- never fall from one to the next: whoever writes one holds the head first, and reads clock and lanes in a statement after.
CREATE TABLE tick (
    n     bigint      PRIMARY KEY,
    at    timestamptz NOT NULL,
    lanes int[]       NOT NULL, -- by id; a lane that is missing had given no number
    upto  bigint[]    NOT NULL
);
CREATE INDEX tick_at ON tick (at, n);
CREATE TABLE tick_head (
    singleton bool        PRIMARY KEY DEFAULT true CHECK (singleton),
    n         bigint      NOT NULL,
    at        timestamptz NOT NULL
);
INSERT INTO tick_head (n, at) VALUES (0, '-infinity');
ALTER TABLE tick OWNER TO offerlog_owner;
ALTER TABLE tick_head OWNER TO offerlog_owner;
GRANT SELECT, INSERT ON tick TO offerlog_ingest;
GRANT SELECT, UPDATE ON tick_head TO offerlog_ingest;
GRANT SELECT ON tick TO offerlog_project, offerlog_read, offerlog_audit, offerlog_inspector;

-- Every value that an offer was published with: what was shown, which is another question than what was known.
CREATE TABLE offer_change (
    tenant      text        NOT NULL,
    offer       uuid        NOT NULL,
    revision    bigint      NOT NULL,
    strong      bool,                 -- of the observation shown; null: no claim counted
    ord         bigint,
    observation uuid,
    flags       text[]      NOT NULL,
    item        text[],               -- that a link gave it
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, offer, revision),
    CHECK (num_nulls(strong, ord, observation) IN (0, 3))
);
CALL protect('offer_change', ARRAY['offerlog_project'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT ON offer_change TO offerlog_project;

CREATE VIEW audit_v1.tick AS SELECT t.n, t.at, t.lanes, t.upto FROM tick AS t;
COMMENT ON VIEW audit_v1.tick IS 'recorded moments: by that time each lane had reached that number';
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
ALTER VIEW audit_v1.tick OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON audit_v1.tick TO offerlog_inspect;
CREATE VIEW audit_v1.offer_change AS
SELECT c.tenant, c.offer, c.revision, c.strong, c.ord, c.observation, c.flags, c.item, c.recorded_at
  FROM offer_change AS c;
COMMENT ON VIEW audit_v1.offer_change IS 'every value that an offer was published with';
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
ALTER VIEW audit_v1.offer_change OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON audit_v1.offer_change TO offerlog_inspect;
