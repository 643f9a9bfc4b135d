-- +goose Up
-- A tenant's keys, wrapped by the master key. A retired key opens what it sealed and seals nothing new; a destroyed one keeps
-- its row and loses its secret, and pruning names the receipt of that.
CREATE TABLE tenant_key (
    tenant       text        NOT NULL,
    key_id       text        NOT NULL,
    wrapped      bytea,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    retired_at   timestamptz,
    destroyed_at timestamptz,
    pruning      uuid,
    PRIMARY KEY (tenant, key_id),
    CHECK ((destroyed_at IS NULL) = (wrapped IS NOT NULL))
);
CALL protect('tenant_key', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT, UPDATE ON tenant_key TO offerlog_ingest;
GRANT SELECT, UPDATE (wrapped) ON tenant_key TO offerlog_janitor; -- a new master key

-- One row for each archived object: the payloads of one tenant in one batch of one partition. Entry i of the object is
-- the payload of (offsets[i], items[i]).
CREATE TABLE artifact (
    tenant    text     NOT NULL,
    object    text     NOT NULL, -- the object's name
    topic_id  uuid     NOT NULL,
    partition int      NOT NULL,
    first     bigint   NOT NULL,
    last      bigint   NOT NULL,
    key_id    text     NOT NULL,
    length    bigint   NOT NULL, -- of the sealed object
    state     text     NOT NULL DEFAULT 'stored' CHECK (state IN ('stored', 'expired', 'shredded')),
    pruning   uuid, -- of what is no longer stored: the receipt of its removal
    offsets   bigint[] NOT NULL,
    items     int[]    NOT NULL,
    sums      bytea[]  NOT NULL, -- SHA-256 of the plaintexts
    lengths   bigint[] NOT NULL, -- of the plaintexts
    PRIMARY KEY (tenant, topic_id, partition, first, object)
);
CALL protect('artifact', ARRAY['offerlog_ingest', 'offerlog_janitor'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT, UPDATE (state, pruning) ON artifact TO offerlog_ingest;
GRANT SELECT, UPDATE (state, pruning) ON artifact TO offerlog_janitor;
