-- +goose Up
-- An observation is what one source claimed about one record in one revision under one mapping version, with its first
-- claim. The key leads by rank: the newest of an offer is the last of its range, and since rank follows from the
-- observation's identity the key also keeps an observation from being stored twice.
CREATE TABLE observation (
    tenant          text        NOT NULL,
    offer           uuid        NOT NULL, -- derived from tenant, account, record
    strong          bool        NOT NULL, -- the source gave a version
    ord             bigint      NOT NULL, -- the source version, or observed_ns
    id              uuid        NOT NULL, -- derived from offer, revision_key, mapping_version
    lane            int         NOT NULL,
    seq             bigint      NOT NULL,
    delivery        uuid        NOT NULL,
    row             int         NOT NULL,
    feed            text        NOT NULL,
    account         text        NOT NULL,
    record          text        NOT NULL,
    revision_key    text        NOT NULL,
    mapping_version int         NOT NULL,
    weak_identity   bool        NOT NULL DEFAULT false,
    observed_ns     bigint      NOT NULL, -- since 1970 UTC
    observed_at     text        NOT NULL, -- RFC 3339 in UTC with every digit of the source
    retrieved_ns    bigint      NOT NULL,
    recorded_at     timestamptz NOT NULL,
    content         bytea       NOT NULL, -- digest of what follows
    mpn             text,
    manufacturer    text,
    item_revision   text,
    packaging       text,
    condition       text,
    gtin            text,
    quantity        numeric,
    unit            text,
    per             numeric,
    price           numeric,
    currency        text,
    price_breaks    jsonb,                -- [{"min_qty": "10", "price": "0.0037"}], numbers as texts
    moq             numeric,
    order_multiple  numeric,
    lead_time_days  numeric,
    stock           jsonb,                -- [{"location": "HAM", "quantity": "40"}], numbers as texts
    valid_from      text,                 -- as observed_at
    valid_until     text,
    deleted         bool        NOT NULL DEFAULT false,
    run             uuid,                 -- of the claim; null: of no run
    held            bool        NOT NULL DEFAULT false, -- the claim does not count until a decision on its run frees it
    due_ns          bigint,               -- from when on the claim counts; null: at once
    until_ns        bigint,               -- valid_until, from when on no claim of it counts
    unresolved      bool        NOT NULL DEFAULT false, -- its feed wants items resolved, and this one is not: it counts by a link alone
    PRIMARY KEY (tenant, offer, strong, ord, id)
);
-- The relay and the audit read a lane in the order of its sequence.
CREATE UNIQUE INDEX observation_lane ON observation (lane, seq);
-- A decision on a run concerns the offers that it has claims of.
CREATE INDEX observation_run ON observation (tenant, run, offer) WHERE run IS NOT NULL;
-- What becomes due, or ends, by time alone is looked for by its moment.
CREATE INDEX observation_due ON observation (tenant, due_ns) WHERE due_ns IS NOT NULL;
CREATE INDEX observation_until ON observation (tenant, until_ns) WHERE until_ns IS NOT NULL;
CALL protect('observation', ARRAY['offerlog_ingest', 'offerlog_relay', 'offerlog_project'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT ON observation TO offerlog_ingest;
GRANT SELECT ON observation TO offerlog_relay, offerlog_project;

-- An observation as programs read it: every column in one order, numbers as texts. The planner sees through it, and the
-- caller's rights hold.
CREATE VIEW observation_row WITH (security_invoker = true) AS
SELECT o.tenant, o.offer, o.strong, o.ord, o.id, o.lane, o.seq, o.delivery, o.row, o.feed, o.account, o.record, o.revision_key,
       o.mapping_version, o.weak_identity, o.observed_ns, o.observed_at, o.retrieved_ns, o.recorded_at, o.content, o.mpn,
       o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin, o.quantity::text, o.unit, o.per::text, o.price::text,
       o.currency, o.price_breaks, o.moq::text, o.order_multiple::text, o.lead_time_days::text, o.stock, o.valid_from, o.valid_until,
       o.deleted, o.run, o.held, o.due_ns, o.unresolved
  FROM observation AS o;
ALTER VIEW observation_row OWNER TO offerlog_owner;
GRANT SELECT ON observation_row TO offerlog_ingest, offerlog_relay, offerlog_project, offerlog_read, offerlog_audit;

-- The parts of an item in the order in which decisions and the view keep them, '' for what is absent.
-- +goose StatementBegin
CREATE FUNCTION item_fields(mpn text, manufacturer text, item_revision text, packaging text, condition text, gtin text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY[coalesce(mpn, ''), coalesce(manufacturer, ''), coalesce(item_revision, ''), coalesce(packaging, ''), coalesce(condition, ''),
                 coalesce(gtin, '')]
$$;
-- +goose StatementEnd
ALTER FUNCTION item_fields OWNER TO offerlog_owner;

-- A sighting is a later delivery that restates a revision with equal content: it moves freshness, adds no version.
CREATE TABLE sighting (
    lane          int         NOT NULL,
    seq           bigint      NOT NULL,
    tenant        text        NOT NULL,
    offer         uuid        NOT NULL,
    strong        bool        NOT NULL,
    ord           bigint      NOT NULL,
    observation   uuid        NOT NULL,
    delivery      uuid        NOT NULL,
    row           int         NOT NULL,
    weak_identity bool        NOT NULL DEFAULT false,
    observed_ns   bigint      NOT NULL,
    observed_at   text        NOT NULL,
    retrieved_ns  bigint      NOT NULL,
    recorded_at   timestamptz NOT NULL,
    run           uuid,
    held          bool        NOT NULL DEFAULT false,
    due_ns        bigint,
    PRIMARY KEY (lane, seq)
);
CREATE INDEX sighting_offer ON sighting (tenant, offer, observation);
CREATE INDEX sighting_run ON sighting (tenant, run, offer) WHERE run IS NOT NULL;
CREATE INDEX sighting_due ON sighting (tenant, due_ns) WHERE due_ns IS NOT NULL;
CALL protect('sighting', ARRAY['offerlog_ingest', 'offerlog_relay', 'offerlog_project'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT ON sighting TO offerlog_ingest;
GRANT SELECT ON sighting TO offerlog_relay, offerlog_project;

-- What was decided about claims after they were made: of the decisions on a subject that a vector of numbers covers, the one
-- with the greatest n counts, for claims that come later too. Rows are only added; n is counted under the subject's lock.
CREATE TABLE decision (
    tenant      text        NOT NULL,
    subject     uuid        NOT NULL, -- a run, an observation, a delivery, or derived from what else it is about
    n           int         NOT NULL CHECK (n > 0),
    kind        text        NOT NULL CHECK (kind IN ('run', 'observation', 'delivery', 'feed', 'due', 'horizon', 'item', 'reading', 'mapping')),
    lane        int         NOT NULL,
    seq         bigint      NOT NULL, -- after the claims of the batch that it follows from
    verdict     text        NOT NULL CHECK (verdict IN ('completed', 'braked', 'released', 'rejected', 'superseded', 'retracted', 'restored',
                                                        'suspended', 'resumed', 'due', 'collected', 'linked', 'unlinked', 'reread')),
    standing    smallint    NOT NULL CHECK (standing BETWEEN 0 AND 2), -- of the subject's claims: 0 none counts, 1 as a part, 2 all
    offer       uuid,                 -- of an observation, and of an item:
    item_was    text[],               -- what claims of the offer say: mpn, manufacturer, revision, packaging, condition, gtin; '' for none
    item        text[],               -- and what that means
    delivery    uuid,                 -- of a reading: which one was read under
    mapping_version int,              -- this mapping version, or which one a decision on a mapping version is about; both are of a feed:
    feed        text,                 -- of a feed and of its horizon, and of a complete snapshot,
    account     text,                 -- which has an account,
    as_of       bigint,               -- and of the snapshot when it was taken: what its account has and it lacks is deleted as of then
    moment      bigint,               -- that has come: what was claimed for later counts from then on, what held until then no more
    collected   timestamptz,          -- of a feed's horizon: deletions that were recorded before it are no longer shown
    reason      text,
    actor       text,
    command     uuid,                 -- the delivery id of the command; null: nobody commanded it
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, subject, n),
    CHECK ((kind IN ('observation', 'item')) = (offer IS NOT NULL)),
    CHECK ((kind = 'item') = (item_was IS NOT NULL AND item IS NOT NULL)),
    CHECK ((kind IN ('feed', 'reading', 'mapping') OR as_of IS NOT NULL) = (feed IS NOT NULL AND account IS NOT NULL)),
    CHECK ((kind = 'reading') = (delivery IS NOT NULL)),
    CHECK ((kind IN ('reading', 'mapping')) = (mapping_version IS NOT NULL)),
    CHECK (as_of IS NULL OR kind = 'run' AND standing = 2),
    CHECK ((kind = 'due') = (moment IS NOT NULL)),
    CHECK ((kind = 'horizon') = (collected IS NOT NULL AND feed IS NOT NULL))
);
CREATE UNIQUE INDEX decision_lane ON decision (lane, seq);
CREATE INDEX decision_snapshot ON decision (tenant, account, as_of, subject) WHERE as_of IS NOT NULL;
-- That there is none is asked by every fold.
CREATE INDEX decision_observation ON decision (tenant, subject) WHERE kind = 'observation';
CREATE INDEX decision_delivery ON decision (tenant, subject) WHERE kind = 'delivery';
CREATE INDEX decision_item ON decision (tenant, offer) WHERE kind = 'item';
CREATE INDEX decision_moment ON decision (tenant, moment) WHERE moment IS NOT NULL;
-- The readings of a delivery, and what was decided about the mapping versions of a feed.
CREATE INDEX decision_reading ON decision (tenant, delivery, mapping_version) WHERE kind = 'reading';
CREATE INDEX decision_mapping ON decision (tenant, feed, mapping_version, n) WHERE kind = 'mapping';
CREATE INDEX decision_feed ON decision (tenant, feed, n) WHERE kind = 'feed';
CREATE INDEX decision_horizon ON decision (tenant, feed, collected) WHERE kind = 'horizon';
CALL protect('decision', ARRAY['offerlog_ingest', 'offerlog_project'], ARRAY['offerlog_read', 'offerlog_audit']);
GRANT SELECT, INSERT ON decision TO offerlog_ingest;
GRANT SELECT ON decision TO offerlog_project;

-- The accounts that a snapshot feed serves: what it completes implies deletions, so whoever claims something in the account
-- holds this row, shared, and whoever may complete a snapshot alone.
CREATE TABLE snapshot_account (
    tenant  text NOT NULL,
    account text NOT NULL,
    PRIMARY KEY (tenant, account)
);
CALL protect('snapshot_account', ARRAY['offerlog_ingest'], ARRAY['offerlog_audit']);
-- UPDATE is what a lock of a row needs; nothing updates one.
GRANT SELECT, INSERT, UPDATE ON snapshot_account TO offerlog_ingest;

-- Every record that such an account ever had.
CREATE TABLE snapshot_record (
    tenant  text NOT NULL,
    account text NOT NULL,
    offer   uuid NOT NULL,
    record  text NOT NULL,
    PRIMARY KEY (tenant, account, offer)
);
CALL protect('snapshot_record', ARRAY['offerlog_ingest'], ARRAY['offerlog_audit']);
GRANT SELECT, INSERT ON snapshot_record TO offerlog_ingest;
