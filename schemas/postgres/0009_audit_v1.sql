-- +goose Up
-- audit_v1 is what can be checked from outside: documented, stable views over all tenants, for one role. They run with
-- the rights of a role that nobody logs in as.
CREATE SCHEMA audit_v1;
GRANT CREATE, USAGE ON SCHEMA audit_v1 TO offerlog_inspector;
GRANT USAGE ON SCHEMA audit_v1 TO offerlog_inspect;

CREATE VIEW audit_v1.position AS
SELECT l.topic_id, l.partition, l.next, l.id AS lane, l.kind, l.topic, l.start, l.sequence, l.clock
  FROM lane AS l;
COMMENT ON VIEW audit_v1.position IS 'the checkpoint of each lane: the first offset not yet stored, the last number given';

CREATE VIEW audit_v1.halt AS
SELECT l.topic_id, l.partition, l.id AS lane, l.halt_reason AS reason, l.halt_from AS from_offset, l.halt_to AS to_offset, l.halted_at
  FROM lane AS l
 WHERE l.halt_reason IS NOT NULL
 UNION ALL
SELECT l.topic_id, l.partition, l.id, c.halt_reason, NULL, NULL, c.halted_at
  FROM relay_cursor AS c
  JOIN lane AS l ON l.id = c.lane
 WHERE c.halt_reason IS NOT NULL;

CREATE VIEW audit_v1.commit_journal AS
SELECT l.topic_id, l.partition, j.lane, j.from_offset, j.to_offset, j.from_seq, j.to_seq, j.worker AS owner, j.recorded_at
  FROM commit_journal AS j
  JOIN lane AS l ON l.id = j.lane;

CREATE VIEW audit_v1.outcome AS
SELECT l.topic_id, l.partition, o."offset", o.item, o.outcome, o.reason, o.detail, o.tenant, o.feed, o.delivery, o.event_source,
       o.event_id, o.event_type, o.canonicalization, o.fingerprint, o.archived,
       CASE WHEN o.archived THEN (SELECT a.object
                                    FROM artifact AS a
                                   WHERE (a.tenant, a.topic_id, a.partition) = (o.tenant, l.topic_id, l.partition)
                                     AND a.first <= o."offset"
                                     AND a.last >= o."offset"
                                   ORDER BY a.first DESC
                                   LIMIT 1) END AS artifact_id,
       o.lane, o.accepted_lane, o.accepted_offset, o.accepted_item, o.mapping_version, o.rows, o.saved, o.duplicate, o.old,
       o.ambiguous_order, o.rejected, o.rejections, o.run, o.page, o.first_seq, o.last_seq, o.retrieved_ns, o.recorded_at, o.declared,
       o.beyond_horizon, o.result_seq
  FROM outcome AS o
  JOIN lane AS l ON l.id = o.lane;

CREATE VIEW audit_v1.receipt AS
SELECT r.tenant, r.delivery, r.canonicalization, r.fingerprint, r.lane, r."offset", r.item
  FROM receipt AS r;

CREATE VIEW audit_v1.artifact AS
SELECT a.tenant, a.object AS name, e."offset", e.item, e.sum AS sha256, e.length, a.key_id, a.state, a.topic_id, a.partition, a.first, a.last
  FROM artifact AS a
 CROSS JOIN LATERAL unnest(a.offsets, a.items, a.sums, a.lengths) AS e ("offset", item, sum, length);

-- One row an object, with the places and digests of its entries side by side.
CREATE VIEW audit_v1.artifact_object AS
SELECT a.tenant, a.object AS name, a.topic_id, a.partition, a.first, a.last, a.key_id, a.length, a.state, a.offsets, a.items,
       a.sums AS sha256, a.lengths, a.pruning
  FROM artifact AS a;

CREATE VIEW audit_v1.observation AS
SELECT o.id, o.tenant, o.offer, o.delivery, o.row, o.feed, o.mapping_version, o.mpn, o.manufacturer, o.gtin, o.account, o.record,
       o.revision_key, o.strong, o.ord, o.observed_at, o.observed_ns, o.retrieved_ns, o.recorded_at, o.content AS row_hash, o.deleted,
       o.lane, o.seq, o.weak_identity, o.item_revision, o.packaging, o.condition, o.quantity, o.unit, o.per, o.price, o.currency,
       o.price_breaks, o.moq, o.order_multiple, o.lead_time_days, o.stock, o.valid_from, o.valid_until, o.run, o.held,
       o.due_ns, o.until_ns, o.unresolved
  FROM observation AS o;

CREATE VIEW audit_v1.claim AS
SELECT o.lane, o.seq, o.tenant, o.offer, o.strong, o.ord, o.id AS observation, o.delivery, o.row, o.weak_identity, o.observed_ns,
       o.observed_at, o.retrieved_ns, o.recorded_at, o.run, o.held, o.due_ns, false AS sighting
  FROM observation AS o
 UNION ALL
SELECT s.lane, s.seq, s.tenant, s.offer, s.strong, s.ord, s.observation, s.delivery, s.row, s.weak_identity, s.observed_ns,
       s.observed_at, s.retrieved_ns, s.recorded_at, s.run, s.held, s.due_ns, true
  FROM sighting AS s;

CREATE VIEW audit_v1.eligibility AS
SELECT d.tenant, d.subject, d.n, d.kind, d.lane, d.seq, d.verdict, d.standing, d.offer, d.item_was, d.item, d.account, d.as_of, d.feed, d.delivery, d.mapping_version,
       d.moment, d.collected, d.reason, d.actor, d.command, d.recorded_at
  FROM decision AS d;
COMMENT ON VIEW audit_v1.eligibility IS 'decisions on which claims count: within a vector of numbers, the greatest n of each subject';

-- What payloads are read under: frozen, so that they can be read again.
CREATE VIEW audit_v1.mapping AS
SELECT m.tenant, m.feed, m.version, m.digest, m.spec, m.applied_at, f.connector, f.account
  FROM mapping AS m
  JOIN feed AS f ON (f.tenant, f.name) = (m.tenant, m.feed);

-- One row an event, whatever the storage.
CREATE VIEW audit_v1.outbox AS
SELECT x.lane, n.seq, x.kind, x.topic, x.key, x.event_id, x.event_type, x.body
  FROM outbox AS x
 CROSS JOIN LATERAL generate_series(x.first, x.last) AS n (seq);

CREATE VIEW audit_v1.relay AS
SELECT c.lane, c.published AS published_seq, c.pruned AS pruned_seq, c.holder, c.epoch
  FROM relay_cursor AS c;

CREATE VIEW audit_v1.current_offer AS
SELECT c.generation, c.tenant, c.offer, c.account, c.record, c.partition, p.revision, p.digest AS published_digest, c.observation AS winner,
       c.strong, c.ord, c.mapping_version, c.content, c.deleted, c.flags, c.item
  FROM current_offer AS c
  LEFT JOIN publication AS p ON (p.tenant, p.offer) = (c.tenant, c.offer);

CREATE VIEW audit_v1.projection AS
SELECT p.generation, p.partition, p.next, p.lane AS projector_lane, a.lane, a.applied_seq
  FROM projection AS p
 CROSS JOIN LATERAL unnest(p.lanes, p.applied) AS a (lane, applied_seq);

CREATE VIEW audit_v1.checkpoint AS
SELECT p.generation, p.partition, p.topic_id, p.next, p.lane
  FROM projection AS p;

CREATE VIEW audit_v1.generation AS
SELECT g.id, g.created_at, g.retired_at, g.id = p.active AS active
  FROM generation AS g, generation_pointer AS p;

CREATE VIEW audit_v1.quarantine AS
SELECT q.tenant, q.id, q.delivery, q.feed, q.row, q.reason, q.detail, q.lane, q."offset", q.item, q.archived, q.fingerprint, q.state,
       q.recorded_at, q.settled_at
  FROM quarantine AS q;

CREATE VIEW audit_v1.run AS
SELECT r.tenant, r.id, r.feed, r.name AS run, r.recorded_at, p.page, p.pages, p.delivery, p.observed_ns, p.rejected
  FROM run AS r
  LEFT JOIN run_page AS p ON (p.tenant, p.run) = (r.tenant, r.id);

CREATE VIEW audit_v1.run_event AS
SELECT e.tenant, e.run, e.delivery, e.kind, e.at, e.credential, e.pages, e.page, e.attempt, e.error, e.recorded_at
  FROM run_event AS e;

-- +goose StatementBegin
DO $$
DECLARE
    v text;
BEGIN
    FOR v IN SELECT viewname FROM pg_views WHERE schemaname = 'audit_v1' LOOP
        EXECUTE format('ALTER VIEW audit_v1.%I OWNER TO offerlog_inspector', v);
        EXECUTE format('GRANT SELECT ON audit_v1.%I TO offerlog_inspect', v);
    END LOOP;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON PROCEDURE protect(regclass, text[], text[]) FROM public;
ALTER FUNCTION current_tenant() OWNER TO offerlog_owner;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON schema_version TO PUBLIC; -- which schema stands here is no secret, and every process checks it
