-- +goose Up
-- A generation is made beside the active one, and every batch is projected into all that are not retired: they stand at the same
-- place of each partition always. Whether one is complete is found by counting and hashing, and stands in no column; the manifest
-- says what it held when it was last found so.
ALTER TABLE generation ADD COLUMN manifest jsonb;
GRANT INSERT (id), UPDATE (manifest, retired_at) ON generation TO offerlog_project;
-- A manifest names all tenants: each reads of it what is its own.
REVOKE SELECT ON generation FROM offerlog_read, offerlog_audit;
GRANT SELECT (id, created_at, retired_at) ON generation TO offerlog_read, offerlog_audit;
CREATE VIEW tenant_manifest WITH (security_barrier = true) AS
SELECT g.id AS generation,
       g.manifest || (t.part - ARRAY['tenant', 'mappings']) || jsonb_build_object('tenants', jsonb_build_array(t.part)) AS manifest
  FROM generation AS g
 CROSS JOIN LATERAL jsonb_array_elements(g.manifest -> 'tenants') AS t (part)
 WHERE t.part ->> 'tenant' = current_tenant();
ALTER VIEW tenant_manifest OWNER TO offerlog_owner;
GRANT SELECT ON tenant_manifest TO offerlog_read, offerlog_audit;
GRANT UPDATE (active) ON generation_pointer TO offerlog_project;

-- Which generation a partition publishes: the pointer's, from the partition's first batch after it moved.
ALTER TABLE projection ADD COLUMN publishes bool NOT NULL DEFAULT false;
UPDATE projection SET publishes = true;

-- What operators did with generations, in order.
CREATE TABLE generation_decision (
    n           int         PRIMARY KEY,
    action      text        NOT NULL CHECK (action IN ('build', 'switch', 'rollback', 'retire')),
    generation  int         NOT NULL REFERENCES generation (id),
    before      int         NOT NULL REFERENCES generation (id), -- the active one until then
    actor       text        NOT NULL,
    reason      text        NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE generation_decision OWNER TO offerlog_owner;
GRANT SELECT, INSERT ON generation_decision TO offerlog_project;
GRANT SELECT ON generation_decision TO offerlog_inspector;
CREATE VIEW audit_v1.generation_decision AS
SELECT d.n, d.action, d.generation, d.before, d.actor, d.reason, d.recorded_at FROM generation_decision AS d;
COMMENT ON VIEW audit_v1.generation_decision IS 'what operators did with generations, and which one was active before';
GRANT CREATE ON SCHEMA audit_v1 TO offerlog_inspector;
ALTER VIEW audit_v1.generation_decision OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA audit_v1 FROM offerlog_inspector;
GRANT SELECT ON audit_v1.generation_decision TO offerlog_inspect;

-- What readers may read: the active generation, and one that was active, until it is retired. Never one that is being built.
CREATE VIEW readable_generation AS
SELECT g.id, g.id = a.active AS active
  FROM generation AS g, generation_pointer AS a
 WHERE g.retired_at IS NULL
   AND (g.id = a.active OR EXISTS (SELECT FROM generation_decision AS d WHERE d.before = g.id AND d.action IN ('switch', 'rollback')));
ALTER VIEW readable_generation OWNER TO offerlog_owner;
GRANT SELECT ON readable_generation TO offerlog_read, offerlog_audit;

-- +goose StatementBegin
-- stands is, of each of the offers asked for, what a generation shows within a vector: without an account where no claim of it is
-- there, and collected where that is a deletion which has no row any more.
--
-- The plan of the fold takes longer than a small batch, so it is kept for the session, as PL/pgSQL does behind any pooler. It probes
-- for each offer, whatever size the tables had when it was made.
CREATE FUNCTION stands(tenants text[], offers uuid[], lanes int[], upto bigint[])
    RETURNS TABLE (tenant text, offer uuid, account text, record text, strong bool, ord bigint, mapping_version int, content bytea,
                   observation uuid, deleted bool, flags text[], item text[], collected bool)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
    WITH folded AS MATERIALIZED (
        SELECT t.tenant, t.offer, f.*
          FROM unnest(tenants, offers) AS t (tenant, offer)
          LEFT JOIN LATERAL fold(t.tenant, t.offer, lanes, upto, NULL) AS f ON true)
    SELECT f.tenant, f.offer, f.account, f.record, f.strong, f.ord, f.mapping_version, f.content, f.observation, f.deleted, f.flags, f.item,
           CASE WHEN f.deleted THEN collected(f.tenant, f.offer, f.strong, f.ord, f.observation, lanes, upto) ELSE false END
      FROM folded AS f
     WHERE f.observation IS NOT NULL
     UNION ALL
    -- Apart from the others: a join that finds nothing costs as much as one that does.
    SELECT f.tenant, f.offer, k.account, k.record, f.strong, f.ord, f.mapping_version, f.content, f.observation, true, '{}', f.item, false
      FROM folded AS f
      LEFT JOIN LATERAL (SELECT c.account, c.record
                           FROM candidates(f.tenant, f.offer, lanes, upto, NULL) AS c
                          LIMIT 1) AS k ON true
     WHERE f.observation IS NULL;
END
$$;
-- +goose StatementEnd
ALTER FUNCTION stands OWNER TO offerlog_owner;

-- shown_digest is that of what is published of a row: another winner with the same content is not published again.
CREATE FUNCTION shown_digest(content bytea, deleted bool, flags text[], item text[]) RETURNS bytea
    LANGUAGE sql STABLE AS $$
    SELECT sha256(coalesce(content, '') || boolsend(deleted)
                  || convert_to(array_to_string(flags, ',') || coalesce(chr(31) || array_to_string(item, chr(31)), ''), 'UTF8'))
$$;
ALTER FUNCTION shown_digest OWNER TO offerlog_owner;

GRANT CREATE ON SCHEMA public TO offerlog_inspector;
-- +goose StatementBegin
-- clear removes the checkpoints and at most so many rows of a retired generation, and says how many rows. The projector has no right
-- to remove anything: this runs with that of a role that nobody logs in as.
CREATE FUNCTION clear(of_generation int, at_most int) RETURNS bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
    WITH ended AS (
        DELETE FROM public.projection AS p
         USING public.generation AS g
         WHERE p.generation = of_generation
           AND g.id = of_generation
           AND g.retired_at IS NOT NULL),
    gone AS (
        DELETE FROM public.current_offer AS c
         WHERE c.ctid = ANY (ARRAY(SELECT x.ctid
                                     FROM public.current_offer AS x
                                     JOIN public.generation AS g ON g.id = x.generation
                                    WHERE x.generation = of_generation
                                      AND g.retired_at IS NOT NULL
                                    LIMIT at_most))
        RETURNING true)
    SELECT count(*) FROM gone;
END;
-- +goose StatementEnd
ALTER FUNCTION clear OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA public FROM offerlog_inspector;
REVOKE EXECUTE ON FUNCTION clear FROM PUBLIC;
GRANT EXECUTE ON FUNCTION clear TO offerlog_project;
GRANT DELETE ON projection TO offerlog_inspector;
