-- +goose Up
-- A generation is one complete build of the view; the pointer names the one that readers see.
CREATE TABLE generation (
    id         int         PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    retired_at timestamptz
);
INSERT INTO generation (id) VALUES (1);
CREATE TABLE generation_pointer (
    singleton   bool PRIMARY KEY DEFAULT true CHECK (singleton),
    active int  NOT NULL REFERENCES generation (id)
);
INSERT INTO generation_pointer (active) VALUES (1);
ALTER TABLE generation OWNER TO offerlog_owner;
ALTER TABLE generation_pointer OWNER TO offerlog_owner;
GRANT SELECT ON generation, generation_pointer TO offerlog_project, offerlog_read, offerlog_audit, offerlog_inspector;

-- The winning observation of each offer. A deleted offer keeps its row and rank: nobody has DELETE here, and only what is past its
-- feed's horizon can be forgotten. An offer of which no claim counts has a row without a winner.
CREATE TABLE current_offer (
    tenant          text   NOT NULL,
    generation      int    NOT NULL,
    offer           uuid   NOT NULL,
    partition       int    NOT NULL, -- of `observations`, which brings every event of this offer
    account         text   NOT NULL,
    record          text   NOT NULL,
    strong          bool,            -- rank of the winner: strong, ord, mapping_version, content, observation
    ord             bigint,
    mapping_version int,
    content         bytea,
    observation     uuid,
    deleted         bool   NOT NULL, -- true without a winner
    flags           text[] NOT NULL, -- sorted; which ones there are stands in package offer
    item            text[],          -- as decision.item, where a link says what the winner's item is
    PRIMARY KEY (tenant, generation, offer),
    CHECK (num_nulls(strong, ord, mapping_version, content, observation) IN (0, 5))
) WITH (fillfactor = 80);
CALL protect('current_offer', ARRAY['offerlog_project'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT, UPDATE ON current_offer TO offerlog_project;
CREATE INDEX current_offer_deleted ON current_offer (tenant, generation, offer) WHERE deleted;

-- What was last published of each offer: beside the generations, so that a switch publishes only what differs. What is collected
-- has no row.
CREATE TABLE publication (
    tenant   text   NOT NULL,
    offer    uuid   NOT NULL,
    revision bigint NOT NULL,
    digest   bytea  NOT NULL,
    PRIMARY KEY (tenant, offer)
) WITH (fillfactor = 80);
CALL protect('publication', ARRAY['offerlog_project'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT, UPDATE ON publication TO offerlog_project;

-- The projector's checkpoint in one partition of `observations`: the next offset, and of every lane the last sequence
-- applied.
CREATE TABLE projection (
    generation int    NOT NULL,
    partition  int    NOT NULL,
    topic_id   uuid   NOT NULL,
    lane       int    NOT NULL, -- whose sequence numbers what this partition publishes
    next       bigint NOT NULL,
    lanes      int[]    NOT NULL DEFAULT '{}',
    applied    bigint[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (generation, partition)
) WITH (fillfactor = 50);
ALTER TABLE projection OWNER TO offerlog_owner;
GRANT SELECT, INSERT, UPDATE ON projection TO offerlog_project;
GRANT SELECT ON projection TO offerlog_inspector, offerlog_read, offerlog_audit;
