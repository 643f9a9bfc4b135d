-- +goose Up
-- The registry's version: what maps a batch reads it before and checks it in its transaction, FOR SHARE; what changes a
-- feed takes it FOR UPDATE.
CREATE TABLE registry (
    singleton    bool   PRIMARY KEY DEFAULT true CHECK (singleton),
    version bigint NOT NULL
);
INSERT INTO registry (version) VALUES (1);
ALTER TABLE registry OWNER TO offerlog_owner;
GRANT SELECT, UPDATE ON registry TO offerlog_ingest;
GRANT SELECT ON registry TO offerlog_relay, offerlog_project, offerlog_inspector, offerlog_read, offerlog_audit;

CREATE TABLE feed (
    tenant          text        NOT NULL,
    name            text        NOT NULL,
    connector       text        NOT NULL,
    account         text        NOT NULL,
    source          text        NOT NULL, -- of the events, compared byte by byte
    topics          text[]      NOT NULL,
    mapping_version int         NOT NULL, -- the one in force
    spec            jsonb       NOT NULL, -- the feed file as applied
    delivery        uuid        NOT NULL, -- the command that applied it
    applied_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, name)
);
CALL protect('feed', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT, UPDATE ON feed TO offerlog_ingest;
GRANT SELECT ON feed TO offerlog_janitor;

-- Topic and source select the feed, whoever the tenant is: that is why this key alone does not begin with the tenant.
CREATE TABLE feed_route (
    topic  text NOT NULL,
    source text NOT NULL,
    tenant text NOT NULL,
    feed   text NOT NULL,
    PRIMARY KEY (topic, source)
);
CALL protect('feed_route', ARRAY['offerlog_ingest'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT, UPDATE, DELETE ON feed_route TO offerlog_ingest;

-- A mapping version is a frozen reading of payloads: never updated, never deleted.
CREATE TABLE mapping (
    tenant     text        NOT NULL,
    feed       text        NOT NULL,
    version    int         NOT NULL CHECK (version > 0),
    digest     bytea       NOT NULL,
    spec       jsonb       NOT NULL,
    applied_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, feed, version)
);
CALL protect('mapping', ARRAY['offerlog_ingest'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT ON mapping TO offerlog_ingest;
