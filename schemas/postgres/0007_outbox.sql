-- +goose Up
-- Events waiting for the relay. A row of kind history stands for the contiguous numbers first..last of its lane, whose
-- content is in observation and sighting and never changes; a row of kind event holds one event whole, and one of kind
-- broadcast an event that every partition of its topic gets.
-- Rows go by TRUNCATE of a slot once all of its rows are published: a ring of tables, so nothing bloats.
CREATE TABLE outbox (
    slot        int         NOT NULL,
    lane        int         NOT NULL,
    first       bigint      NOT NULL,
    last        bigint      NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('history', 'event', 'broadcast')),
    topic       text,
    key         text,
    event_id    uuid,
    event_type  text,
    body        bytea,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (slot, lane, first)
) PARTITION BY LIST (slot);
CREATE TABLE outbox_0 PARTITION OF outbox FOR VALUES IN (0);
CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN (1);
CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES IN (2);
CALL protect('outbox', ARRAY['offerlog_ingest', 'offerlog_relay', 'offerlog_project', 'offerlog_janitor'], ARRAY[]::text[]);
CALL protect('outbox_0', ARRAY['offerlog_janitor'], ARRAY[]::text[]);
CALL protect('outbox_1', ARRAY['offerlog_janitor'], ARRAY[]::text[]);
CALL protect('outbox_2', ARRAY['offerlog_janitor'], ARRAY[]::text[]);
GRANT INSERT ON outbox TO offerlog_ingest, offerlog_project;
GRANT SELECT ON outbox TO offerlog_relay, offerlog_janitor;
GRANT SELECT, TRUNCATE ON outbox_0, outbox_1, outbox_2 TO offerlog_janitor;

-- The slot that new rows go to.
CREATE TABLE outbox_ring (
    singleton bool PRIMARY KEY DEFAULT true CHECK (singleton),
    slot int  NOT NULL
);
INSERT INTO outbox_ring (slot) VALUES (0);
ALTER TABLE outbox_ring OWNER TO offerlog_owner;
GRANT SELECT ON outbox_ring TO offerlog_ingest, offerlog_project, offerlog_inspector;
GRANT SELECT, UPDATE ON outbox_ring TO offerlog_janitor;

-- What the relay has published of each lane: a copy of the cursor in the log, which never moves back; and who relays it.
CREATE TABLE relay_cursor (
    lane       int         PRIMARY KEY,
    published  bigint      NOT NULL DEFAULT 0,
    pruned     bigint      NOT NULL DEFAULT 0, -- rows up to here are gone from the outbox
    holder     text,
    epoch      bigint      NOT NULL DEFAULT 0,
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    halt_reason text,
    halted_at  timestamptz
) WITH (fillfactor = 50);
ALTER TABLE relay_cursor OWNER TO offerlog_owner;
GRANT SELECT, INSERT, UPDATE ON relay_cursor TO offerlog_relay;
GRANT SELECT, UPDATE ON relay_cursor TO offerlog_janitor;
GRANT SELECT ON relay_cursor TO offerlog_inspector, offerlog_audit;
