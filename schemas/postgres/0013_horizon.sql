-- +goose Up
-- How far the janitor has gone through the outcomes of a lane to expire receipts. A row speaks of the feeds that keep their
-- receipts at most so long: below the offset theirs are gone.
CREATE TABLE receipt_horizon (
    lane    int    NOT NULL,
    keep_ns bigint NOT NULL,
    expired bigint NOT NULL,
    PRIMARY KEY (lane, keep_ns)
);
ALTER TABLE receipt_horizon OWNER TO offerlog_owner;
GRANT SELECT, INSERT, UPDATE ON receipt_horizon TO offerlog_janitor;
GRANT SELECT ON receipt_horizon TO offerlog_inspector;

CREATE VIEW audit_v1.receipt_horizon AS
SELECT h.lane, max(h.expired) AS expired
  FROM receipt_horizon AS h
 GROUP BY h.lane;
COMMENT ON VIEW audit_v1.receipt_horizon IS 'below this offset of a lane, an accepted delivery may have no receipt any more';
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
ALTER VIEW audit_v1.receipt_horizon OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON audit_v1.receipt_horizon TO offerlog_inspect;
