-- +goose Up
-- One row for each partition whose events offerlog numbers: partitions of input topics, and for the projector those of
-- `observations`. The row is the checkpoint, the sequence and the lock of its lane. Ids are dealt out by the table itself
-- (max + 1 under a lock), so they survive dump and restore.
CREATE TABLE lane (
    id          int         PRIMARY KEY,
    kind        text        NOT NULL CHECK (kind IN ('input', 'projector')),
    topic       text        NOT NULL,
    topic_id    uuid        NOT NULL, -- a topic made again under the same name has another id
    partition   int         NOT NULL,
    start       bigint      NOT NULL, -- the first offset that was ever to be read
    next        bigint      NOT NULL, -- the first offset not yet stored
    sequence    bigint      NOT NULL DEFAULT 0, -- the last number given to an event
    clock       timestamptz NOT NULL DEFAULT '-infinity', -- the latest recorded_at
    starts      int         NOT NULL DEFAULT 0, -- how often a worker has taken it over since its last commit
    tries       int         NOT NULL DEFAULT 0, -- how often its next record was tried alone since then
    halt_reason text,
    halt_from   bigint,
    halt_to     bigint,
    halted_at   timestamptz,
    UNIQUE (kind, topic_id, partition)
) WITH (fillfactor = 50);
ALTER TABLE lane OWNER TO offerlog_owner;
GRANT SELECT, INSERT, UPDATE ON lane TO offerlog_ingest, offerlog_project;
GRANT SELECT ON lane TO offerlog_relay, offerlog_janitor, offerlog_inspector, offerlog_read, offerlog_audit;

-- The intervals that were committed, one row for each lane of each batch: together they tile [start, next).
CREATE TABLE commit_journal (
    lane        int         NOT NULL,
    from_offset bigint      NOT NULL,
    to_offset   bigint      NOT NULL,
    from_seq    bigint      NOT NULL, -- exclusive
    to_seq      bigint      NOT NULL, -- inclusive
    worker      text        NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (lane, from_offset)
);
ALTER TABLE commit_journal OWNER TO offerlog_owner;
GRANT INSERT ON commit_journal TO offerlog_ingest, offerlog_project;
GRANT SELECT ON commit_journal TO offerlog_inspector;
