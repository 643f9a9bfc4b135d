-- The schema that the migrations lead to. Written by: go test ./pkg/postgres -run SchemaDump -update
CREATE SCHEMA audit_v1;

ALTER SCHEMA audit_v1 OWNER TO postgres;

CREATE FUNCTION public.candidates(of_tenant text, of_offer uuid, lanes integer[], upto bigint[], as_of bigint) RETURNS TABLE(strong boolean, ord bigint, mapping_version integer, content bytea, observation uuid, account text, record text, revision_key text, deleted boolean, standing integer, reason text, since_ns bigint, item text[])
    LANGUAGE sql STABLE
    AS $$
    SELECT o.strong, o.ord, o.mapping_version, o.content, o.id, o.account, o.record, o.revision_key, o.deleted,
           CASE WHEN b.reason IS NULL THEN c.standing ELSE 0 END,
           coalesce(b.reason, CASE WHEN c.standing = 0 THEN c.reason END),
           c.since_ns,
           l.item
      FROM observation AS o
     -- What a link says that its item is.
     CROSS JOIN LATERAL (
         SELECT CASE WHEN (SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'item'))
                     THEN (SELECT CASE WHEN d.standing > 0 THEN d.item END
                             FROM decision AS d
                            WHERE (d.tenant, d.offer) = (of_tenant, of_offer)
                              AND d.kind = 'item'
                              AND d.item_was = item_fields(o.mpn, o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin)
                              AND d.seq <= upto[array_position(lanes, d.lane)]
                            ORDER BY d.n DESC
                            LIMIT 1) END) AS l (item)
     -- What keeps a whole observation out.
     CROSS JOIN LATERAL (
         SELECT coalesce(
                CASE WHEN (SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'feed'))
                     THEN (SELECT CASE WHEN d.standing = 0 THEN d.verdict END
                             FROM decision AS d
                            WHERE (d.tenant, d.feed) = (o.tenant, o.feed)
                              AND d.kind = 'feed'
                              AND d.seq <= upto[array_position(lanes, d.lane)]
                            ORDER BY d.n DESC
                            LIMIT 1) END,
                CASE WHEN (SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'observation'))
                     THEN (SELECT CASE WHEN d.standing = 0 THEN d.verdict END
                             FROM decision AS d
                            WHERE (d.tenant, d.subject) = (o.tenant, o.id)
                              AND d.seq <= upto[array_position(lanes, d.lane)]
                            ORDER BY d.n DESC
                            LIMIT 1) END,
                CASE WHEN (SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'mapping'))
                      AND void(o.tenant, o.feed, o.mapping_version, lanes, upto)
                     THEN 'retracted' END,
                CASE WHEN o.mapping_version = 0 THEN overtaken(of_tenant, of_offer, o.account, o.run, o.ord, lanes, upto) END,
                CASE WHEN o.until_ns IS NOT NULL AND passed(o.until_ns, of_tenant, o.recorded_at, lanes, upto, as_of)
                     THEN 'expired' END,
                CASE WHEN o.unresolved AND l.item IS NULL THEN 'unresolved' END)
         OFFSET 0) AS b (reason)
     -- Its claims: the first one, and those that restate it.
     CROSS JOIN LATERAL (
         SELECT max(v.standing), max(v.reason), min(k.observed_ns) FILTER (WHERE v.standing > 0)
           FROM (SELECT o.lane, o.seq, o.delivery, o.run, o.held, o.observed_ns, o.due_ns, o.recorded_at
                  UNION ALL
                 SELECT s.lane, s.seq, s.delivery, s.run, s.held, s.observed_ns, s.due_ns, s.recorded_at
                   FROM sighting AS s
                  WHERE (s.tenant, s.offer, s.observation) = (of_tenant, of_offer, o.id)) AS k
          CROSS JOIN LATERAL (
              -- A deletion that a snapshot implies stands by the snapshot, whichever delivery brought it about.
              SELECT CASE WHEN o.mapping_version > 0 AND (SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'delivery'))
                          THEN (SELECT CASE WHEN d.standing = 0 THEN d.verdict END
                                  FROM decision AS d
                                 WHERE (d.tenant, d.subject) = (of_tenant, k.delivery)
                                   AND d.kind = 'delivery'
                                   AND d.seq <= upto[array_position(lanes, d.lane)]
                                 ORDER BY d.n DESC
                                 LIMIT 1) END,
                     -- Of the readings of a delivery only the one under the newest mapping version in force counts.
                     CASE WHEN o.mapping_version > 0 AND (SELECT EXISTS (SELECT FROM decision AS d WHERE d.kind = 'reading'))
                          THEN EXISTS (SELECT
                                         FROM decision AS d
                                        WHERE (d.tenant, d.delivery) = (of_tenant, k.delivery)
                                          AND d.kind = 'reading'
                                          AND d.mapping_version > o.mapping_version
                                          AND d.seq <= upto[array_position(lanes, d.lane)]
                                          AND NOT void(d.tenant, d.feed, d.mapping_version, lanes, upto))
                          ELSE false END,
                     CASE WHEN k.run IS NOT NULL
                          THEN (SELECT ARRAY[d.standing::text, d.verdict]
                                  FROM decision AS d
                                 WHERE (d.tenant, d.subject) = (of_tenant, k.run)
                                   AND d.seq <= upto[array_position(lanes, d.lane)]
                                 ORDER BY d.n DESC
                                 LIMIT 1) END,
                     k.due_ns IS NOT NULL AND NOT passed(k.due_ns, of_tenant, k.recorded_at, lanes, upto, as_of)
              OFFSET 0) AS d (retracted, passed, run, early)
          CROSS JOIN LATERAL (
              SELECT CASE WHEN d.retracted IS NOT NULL OR d.passed OR d.early THEN 0
                          WHEN k.run IS NULL THEN 2
                          WHEN d.run IS NOT NULL THEN d.run[1]::int
                          WHEN k.held THEN 0
                          ELSE 1 END,
                     coalesce(d.retracted, CASE WHEN d.passed THEN 'older_reading' END, CASE WHEN d.early THEN 'future' END, d.run[2], CASE WHEN k.held THEN 'held' END)) AS v (standing, reason)
          WHERE k.seq <= upto[array_position(lanes, k.lane)]) AS c (standing, reason, since_ns)
     WHERE (o.tenant, o.offer) = (of_tenant, of_offer)
       AND c.standing IS NOT NULL
$$;

ALTER FUNCTION public.candidates(of_tenant text, of_offer uuid, lanes integer[], upto bigint[], as_of bigint) OWNER TO offerlog_owner;

CREATE TABLE public.current_offer (
    tenant text NOT NULL,
    generation integer NOT NULL,
    offer uuid NOT NULL,
    partition integer NOT NULL,
    account text NOT NULL,
    record text NOT NULL,
    strong boolean,
    ord bigint,
    mapping_version integer,
    content bytea,
    observation uuid,
    deleted boolean NOT NULL,
    flags text[] NOT NULL,
    item text[],
    CONSTRAINT current_offer_check CHECK ((num_nulls(strong, ord, mapping_version, content, observation) = ANY (ARRAY[0, 5])))
)
WITH (fillfactor='80');

ALTER TABLE ONLY public.current_offer FORCE ROW LEVEL SECURITY;

ALTER TABLE public.current_offer OWNER TO offerlog_owner;

CREATE TABLE public.generation (
    id integer NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    retired_at timestamp with time zone,
    manifest jsonb
);

ALTER TABLE public.generation OWNER TO offerlog_owner;

CREATE TABLE public.projection (
    generation integer NOT NULL,
    partition integer NOT NULL,
    topic_id uuid NOT NULL,
    lane integer NOT NULL,
    next bigint NOT NULL,
    lanes integer[] DEFAULT '{}'::integer[] NOT NULL,
    applied bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    publishes boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE public.projection OWNER TO offerlog_owner;

CREATE FUNCTION public.clear(of_generation integer, at_most integer) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    BEGIN ATOMIC
 WITH ended AS (
          DELETE FROM public.projection p
            USING public.generation g
           WHERE ((p.generation = clear.of_generation) AND (g.id = clear.of_generation) AND (g.retired_at IS NOT NULL))
         ), gone AS (
          DELETE FROM public.current_offer c
           WHERE (c.ctid = ANY (ARRAY( SELECT x.ctid
                    FROM (public.current_offer x
                      JOIN public.generation g ON ((g.id = x.generation)))
                   WHERE ((x.generation = clear.of_generation) AND (g.retired_at IS NOT NULL))
                  LIMIT clear.at_most)))
           RETURNING true AS "?column?"
         )
  SELECT count(*) AS count
    FROM gone;
END;

ALTER FUNCTION public.clear(of_generation integer, at_most integer) OWNER TO offerlog_inspector;

CREATE FUNCTION public.collected(of_tenant text, of_offer uuid, strong boolean, ord bigint, observation uuid, lanes integer[], upto bigint[]) RETURNS boolean
    LANGUAGE sql STABLE
    AS $_$
    SELECT EXISTS (SELECT
                     FROM observation AS o
                     JOIN decision AS d ON (d.tenant, d.feed) = (o.tenant, o.feed)
                    WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = ($1, $2, $3, $4, $5)
                      AND d.kind = 'horizon'
                      AND d.collected > o.recorded_at
                      AND d.seq <= upto[array_position(lanes, d.lane)])
$_$;

ALTER FUNCTION public.collected(of_tenant text, of_offer uuid, strong boolean, ord bigint, observation uuid, lanes integer[], upto bigint[]) OWNER TO offerlog_owner;

CREATE FUNCTION public.current_tenant() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN NULLIF(current_setting('offerlog.tenant'::text, true), ''::text);

ALTER FUNCTION public.current_tenant() OWNER TO offerlog_owner;

CREATE FUNCTION public.fold(of_tenant text, of_offer uuid, lanes integer[], upto bigint[], as_of bigint) RETURNS TABLE(strong boolean, ord bigint, mapping_version integer, content bytea, observation uuid, account text, record text, deleted boolean, flags text[], item text[])
    LANGUAGE sql STABLE
    AS $$
    WITH equals AS MATERIALIZED (
        SELECT c.*
          FROM candidates(of_tenant, of_offer, lanes, upto, as_of) AS c
         WHERE c.standing > 0
           AND (as_of IS NULL OR c.since_ns <= as_of)
         ORDER BY c.strong DESC, c.ord DESC
         FETCH FIRST ROW WITH TIES)
    SELECT e.strong, e.ord, e.mapping_version, e.content, e.observation, e.account, e.record, e.deleted,
           array_remove(ARRAY[CASE WHEN EXISTS (SELECT
                                                  FROM equals AS x
                                                 WHERE x.revision_key <> e.revision_key
                                                   AND x.content <> e.content
                                                   AND x.mapping_version > 0) THEN 'ambiguous_order' END,
                              CASE WHEN e.standing = 1 THEN 'partial_run' END], NULL),
           e.item
      FROM equals AS e
     ORDER BY e.mapping_version DESC, e.content DESC, e.observation DESC
     LIMIT 1
$$;

ALTER FUNCTION public.fold(of_tenant text, of_offer uuid, lanes integer[], upto bigint[], as_of bigint) OWNER TO offerlog_owner;

CREATE TABLE public.decision (
    tenant text NOT NULL,
    subject uuid NOT NULL,
    n integer NOT NULL,
    kind text NOT NULL,
    lane integer NOT NULL,
    seq bigint NOT NULL,
    verdict text NOT NULL,
    standing smallint NOT NULL,
    offer uuid,
    item_was text[],
    item text[],
    delivery uuid,
    mapping_version integer,
    feed text,
    account text,
    as_of bigint,
    moment bigint,
    collected timestamp with time zone,
    reason text,
    actor text,
    command uuid,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT decision_check CHECK (((kind = ANY (ARRAY['observation'::text, 'item'::text])) = (offer IS NOT NULL))),
    CONSTRAINT decision_check1 CHECK (((kind = 'item'::text) = ((item_was IS NOT NULL) AND (item IS NOT NULL)))),
    CONSTRAINT decision_check2 CHECK ((((kind = ANY (ARRAY['feed'::text, 'reading'::text, 'mapping'::text])) OR (as_of IS NOT NULL)) = ((feed IS NOT NULL) AND (account IS NOT NULL)))),
    CONSTRAINT decision_check3 CHECK (((kind = 'reading'::text) = (delivery IS NOT NULL))),
    CONSTRAINT decision_check4 CHECK (((kind = ANY (ARRAY['reading'::text, 'mapping'::text])) = (mapping_version IS NOT NULL))),
    CONSTRAINT decision_check5 CHECK (((as_of IS NULL) OR ((kind = 'run'::text) AND (standing = 2)))),
    CONSTRAINT decision_check6 CHECK (((kind = 'due'::text) = (moment IS NOT NULL))),
    CONSTRAINT decision_check7 CHECK (((kind = 'horizon'::text) = ((collected IS NOT NULL) AND (feed IS NOT NULL)))),
    CONSTRAINT decision_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'observation'::text, 'delivery'::text, 'feed'::text, 'due'::text, 'horizon'::text, 'item'::text, 'reading'::text, 'mapping'::text]))),
    CONSTRAINT decision_n_check CHECK ((n > 0)),
    CONSTRAINT decision_standing_check CHECK (((standing >= 0) AND (standing <= 2))),
    CONSTRAINT decision_verdict_check CHECK ((verdict = ANY (ARRAY['completed'::text, 'braked'::text, 'released'::text, 'rejected'::text, 'superseded'::text, 'retracted'::text, 'restored'::text, 'suspended'::text, 'resumed'::text, 'due'::text, 'collected'::text, 'linked'::text, 'unlinked'::text, 'reread'::text])))
);

ALTER TABLE ONLY public.decision FORCE ROW LEVEL SECURITY;

ALTER TABLE public.decision OWNER TO offerlog_owner;

CREATE TABLE public.observation (
    tenant text NOT NULL,
    offer uuid NOT NULL,
    strong boolean NOT NULL,
    ord bigint NOT NULL,
    id uuid NOT NULL,
    lane integer NOT NULL,
    seq bigint NOT NULL,
    delivery uuid NOT NULL,
    "row" integer NOT NULL,
    feed text NOT NULL,
    account text NOT NULL,
    record text NOT NULL,
    revision_key text NOT NULL,
    mapping_version integer NOT NULL,
    weak_identity boolean DEFAULT false NOT NULL,
    observed_ns bigint NOT NULL,
    observed_at text NOT NULL,
    retrieved_ns bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    content bytea NOT NULL,
    mpn text,
    manufacturer text,
    item_revision text,
    packaging text,
    condition text,
    gtin text,
    quantity numeric,
    unit text,
    per numeric,
    price numeric,
    currency text,
    price_breaks jsonb,
    moq numeric,
    order_multiple numeric,
    lead_time_days numeric,
    stock jsonb,
    valid_from text,
    valid_until text,
    deleted boolean DEFAULT false NOT NULL,
    run uuid,
    held boolean DEFAULT false NOT NULL,
    due_ns bigint,
    until_ns bigint,
    unresolved boolean DEFAULT false NOT NULL
);

ALTER TABLE ONLY public.observation FORCE ROW LEVEL SECURITY;

ALTER TABLE public.observation OWNER TO offerlog_owner;

CREATE FUNCTION public.forget(of_tenant text, of_generation integer, of_offer uuid, of_strong boolean, of_ord bigint, deletion uuid) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    BEGIN ATOMIC
 WITH gone AS (
          DELETE FROM public.current_offer c
           WHERE (((c.tenant = forget.of_tenant) AND (c.generation = forget.of_generation) AND (c.offer = forget.of_offer)) AND (EXISTS ( SELECT
                    FROM (public.observation o
                      JOIN public.decision d ON (((d.tenant = o.tenant) AND (d.feed = o.feed))))
                   WHERE (((o.tenant = forget.of_tenant) AND (o.offer = forget.of_offer) AND (o.strong = forget.of_strong) AND (o.ord = forget.of_ord) AND (o.id = forget.deletion)) AND o.deleted AND (d.kind = 'horizon'::text) AND (d.collected > o.recorded_at)))))
           RETURNING true AS "?column?"
         )
  SELECT (EXISTS ( SELECT
            FROM gone)) AS "exists";
END;

ALTER FUNCTION public.forget(of_tenant text, of_generation integer, of_offer uuid, of_strong boolean, of_ord bigint, deletion uuid) OWNER TO offerlog_inspector;

CREATE FUNCTION public.item_fields(mpn text, manufacturer text, item_revision text, packaging text, condition text, gtin text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT ARRAY[coalesce(mpn, ''), coalesce(manufacturer, ''), coalesce(item_revision, ''), coalesce(packaging, ''), coalesce(condition, ''),
                 coalesce(gtin, '')]
$$;

ALTER FUNCTION public.item_fields(mpn text, manufacturer text, item_revision text, packaging text, condition text, gtin text) OWNER TO offerlog_owner;

CREATE VIEW public.observation_row WITH (security_invoker='true') AS
 SELECT o.tenant,
    o.offer,
    o.strong,
    o.ord,
    o.id,
    o.lane,
    o.seq,
    o.delivery,
    o."row",
    o.feed,
    o.account,
    o.record,
    o.revision_key,
    o.mapping_version,
    o.weak_identity,
    o.observed_ns,
    o.observed_at,
    o.retrieved_ns,
    o.recorded_at,
    o.content,
    o.mpn,
    o.manufacturer,
    o.item_revision,
    o.packaging,
    o.condition,
    o.gtin,
    (o.quantity)::text AS quantity,
    o.unit,
    (o.per)::text AS per,
    (o.price)::text AS price,
    o.currency,
    o.price_breaks,
    (o.moq)::text AS moq,
    (o.order_multiple)::text AS order_multiple,
    (o.lead_time_days)::text AS lead_time_days,
    o.stock,
    o.valid_from,
    o.valid_until,
    o.deleted,
    o.run,
    o.held,
    o.due_ns,
    o.unresolved
   FROM public.observation o;

ALTER TABLE public.observation_row OWNER TO offerlog_owner;

CREATE FUNCTION public.known(offers uuid[], lanes integer[], upto bigint[], as_of bigint) RETURNS TABLE(observation public.observation_row, flags text[], item text[], retrieved_ns bigint)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
    RETURN QUERY
    SELECT w.observation, f.flags, f.item,
           greatest(CASE WHEN (w.observation).seq <= upto[array_position(lanes, (w.observation).lane)] THEN (w.observation).retrieved_ns END,
                    (SELECT max(s.retrieved_ns)
                       FROM sighting AS s
                      WHERE (s.tenant, s.offer, s.observation) = (current_tenant(), a.offer, f.observation)
                        AND s.seq <= upto[array_position(lanes, s.lane)]))
      FROM unnest(offers) AS a (offer)
     CROSS JOIN LATERAL fold(current_tenant(), a.offer, lanes, upto, as_of) AS f
     CROSS JOIN LATERAL (SELECT o
                           FROM observation_row AS o
                          WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (current_tenant(), a.offer, f.strong, f.ord, f.observation)
                         OFFSET 0) AS w (observation);
END
$$;

ALTER FUNCTION public.known(offers uuid[], lanes integer[], upto bigint[], as_of bigint) OWNER TO offerlog_owner;

CREATE FUNCTION public.overtaken(of_tenant text, of_offer uuid, of_account text, of_run uuid, taken bigint, lanes integer[], upto bigint[]) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN EXISTS (SELECT
                               FROM decision AS d
                              WHERE (d.tenant, d.account) = (of_tenant, of_account)
                                AND (d.as_of, d.subject) > (taken, of_run)
                                AND d.as_of IS NOT NULL
                                AND d.seq <= upto[array_position(lanes, d.lane)]
                                AND NOT EXISTS (SELECT
                                                  FROM decision AS later
                                                 WHERE (later.tenant, later.subject) = (d.tenant, d.subject)
                                                   AND later.n > d.n
                                                   AND later.seq <= upto[array_position(lanes, later.lane)]))
                THEN 'snapshot_passed'
                WHEN EXISTS (SELECT
                               FROM (SELECT x.lane, x.seq, x.delivery, x.feed, x.mapping_version
                                       FROM observation AS x
                                      WHERE (x.tenant, x.run, x.offer) = (of_tenant, of_run, of_offer)
                                        AND x.mapping_version > 0
                                      UNION ALL
                                     SELECT s.lane, s.seq, s.delivery, x.feed, x.mapping_version
                                       FROM sighting AS s
                                       JOIN observation AS x ON (x.tenant, x.offer, x.strong, x.ord, x.id) = (s.tenant, s.offer, s.strong, s.ord, s.observation)
                                      WHERE (s.tenant, s.run, s.offer) = (of_tenant, of_run, of_offer)) AS c
                              WHERE c.seq <= upto[array_position(lanes, c.lane)]
                                AND NOT void(of_tenant, c.feed, c.mapping_version, lanes, upto)
                                AND NOT EXISTS (SELECT
                                                  FROM decision AS d
                                                 WHERE (d.tenant, d.delivery) = (of_tenant, c.delivery)
                                                   AND d.kind = 'reading'
                                                   AND d.mapping_version > c.mapping_version
                                                   AND d.seq <= upto[array_position(lanes, d.lane)]
                                                   AND NOT void(d.tenant, d.feed, d.mapping_version, lanes, upto)))
                THEN 'snapshot_has' END
$$;

ALTER FUNCTION public.overtaken(of_tenant text, of_offer uuid, of_account text, of_run uuid, taken bigint, lanes integer[], upto bigint[]) OWNER TO offerlog_owner;

CREATE FUNCTION public.passed(ns bigint, of_tenant text, recorded_at timestamp with time zone, lanes integer[], upto bigint[], as_of bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT ns <= coalesce(as_of, greatest((extract(epoch FROM recorded_at) * 1000000000)::bigint,
                                          (SELECT d.moment
                                             FROM decision AS d
                                            WHERE d.tenant = of_tenant
                                              AND d.moment IS NOT NULL
                                              AND d.seq <= upto[array_position(lanes, d.lane)]
                                            ORDER BY d.moment DESC
                                            LIMIT 1)))
$$;

ALTER FUNCTION public.passed(ns bigint, of_tenant text, recorded_at timestamp with time zone, lanes integer[], upto bigint[], as_of bigint) OWNER TO offerlog_owner;

CREATE PROCEDURE public.protect(IN tab regclass, IN workers text[], IN readers text[])
    LANGUAGE plpgsql
    AS $$
DECLARE
    r text;
BEGIN
    EXECUTE format('ALTER TABLE %s OWNER TO offerlog_owner', tab);
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tab);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tab);
    FOREACH r IN ARRAY workers || ARRAY['offerlog_inspector'] LOOP
        EXECUTE format('CREATE POLICY %I ON %s TO %I USING (true) WITH CHECK (true)', 'worker_' || r, tab, r);
    END LOOP;
    FOREACH r IN ARRAY readers LOOP
        EXECUTE format('CREATE POLICY %I ON %s FOR SELECT TO %I USING (tenant = current_tenant())', 'tenant_' || r, tab, r);
        EXECUTE format('GRANT SELECT ON %s TO %I', tab, r);
    END LOOP;
    EXECUTE format('GRANT SELECT ON %s TO offerlog_inspector', tab);
END
$$;

ALTER PROCEDURE public.protect(IN tab regclass, IN workers text[], IN readers text[]) OWNER TO postgres;

CREATE FUNCTION public.shown_digest(content bytea, deleted boolean, flags text[], item text[]) RETURNS bytea
    LANGUAGE sql STABLE
    AS $$
    SELECT sha256(coalesce(content, '') || boolsend(deleted)
                  || convert_to(array_to_string(flags, ',') || coalesce(chr(31) || array_to_string(item, chr(31)), ''), 'UTF8'))
$$;

ALTER FUNCTION public.shown_digest(content bytea, deleted boolean, flags text[], item text[]) OWNER TO offerlog_owner;

CREATE FUNCTION public.stands(tenants text[], offers uuid[], lanes integer[], upto bigint[]) RETURNS TABLE(tenant text, offer uuid, account text, record text, strong boolean, ord bigint, mapping_version integer, content bytea, observation uuid, deleted boolean, flags text[], item text[], collected boolean)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
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

ALTER FUNCTION public.stands(tenants text[], offers uuid[], lanes integer[], upto bigint[]) OWNER TO offerlog_owner;

CREATE TABLE public.token (
    tenant text NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    sha256 bytea NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_by uuid,
    revoked_at timestamp with time zone,
    CONSTRAINT token_check CHECK (((revoked_by IS NULL) = (revoked_at IS NULL))),
    CONSTRAINT token_role_check CHECK ((role = ANY (ARRAY['publisher'::text, 'reader'::text, 'auditor'::text, 'operator'::text, 'admin'::text]))),
    CONSTRAINT token_sha256_check CHECK ((length(sha256) = 32))
);

ALTER TABLE ONLY public.token FORCE ROW LEVEL SECURITY;

ALTER TABLE public.token OWNER TO offerlog_owner;

CREATE FUNCTION public.token_by_digest(digest bytea) RETURNS TABLE(tenant text, id uuid, role text, sha256 bytea, expires_at timestamp with time zone, revoked_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
 SELECT t.tenant,
     t.id,
     t.role,
     t.sha256,
     t.expires_at,
     t.revoked_at
    FROM public.token t
   WHERE (t.sha256 = token_by_digest.digest);
END;

ALTER FUNCTION public.token_by_digest(digest bytea) OWNER TO offerlog_inspector;

CREATE TABLE public.generation_pointer (
    singleton boolean DEFAULT true NOT NULL,
    active integer NOT NULL,
    CONSTRAINT generation_pointer_singleton_check CHECK (singleton)
);

ALTER TABLE public.generation_pointer OWNER TO offerlog_owner;

CREATE TABLE public.publication (
    tenant text NOT NULL,
    offer uuid NOT NULL,
    revision bigint NOT NULL,
    digest bytea NOT NULL
)
WITH (fillfactor='80');

ALTER TABLE ONLY public.publication FORCE ROW LEVEL SECURITY;

ALTER TABLE public.publication OWNER TO offerlog_owner;

CREATE FUNCTION public.unpublish(of_tenant text, of_offer uuid, of_revision bigint) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    BEGIN ATOMIC
 WITH gone AS (
          DELETE FROM public.publication p
           WHERE (((p.tenant = unpublish.of_tenant) AND (p.offer = unpublish.of_offer)) AND (p.revision < unpublish.of_revision) AND (NOT (EXISTS ( SELECT
                    FROM (public.generation_pointer g
                      JOIN public.current_offer c ON (((c.tenant = unpublish.of_tenant) AND (c.generation = g.active) AND (c.offer = unpublish.of_offer))))))))
           RETURNING true AS "?column?"
         )
  SELECT (EXISTS ( SELECT
            FROM gone)) AS "exists";
END;

ALTER FUNCTION public.unpublish(of_tenant text, of_offer uuid, of_revision bigint) OWNER TO offerlog_inspector;

CREATE FUNCTION public.void(of_tenant text, of_feed text, version integer, lanes integer[], upto bigint[]) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce((SELECT d.standing = 0
                       FROM decision AS d
                      WHERE (d.tenant, d.feed, d.mapping_version) = (of_tenant, of_feed, version)
                        AND d.kind = 'mapping'
                        AND d.seq <= upto[array_position(lanes, d.lane)]
                      ORDER BY d.n DESC
                      LIMIT 1), false)
$$;

ALTER FUNCTION public.void(of_tenant text, of_feed text, version integer, lanes integer[], upto bigint[]) OWNER TO offerlog_owner;

CREATE TABLE public.artifact (
    tenant text NOT NULL,
    object text NOT NULL,
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    key_id text NOT NULL,
    length bigint NOT NULL,
    state text DEFAULT 'stored'::text NOT NULL,
    pruning uuid,
    offsets bigint[] NOT NULL,
    items integer[] NOT NULL,
    sums bytea[] NOT NULL,
    lengths bigint[] NOT NULL,
    CONSTRAINT artifact_state_check CHECK ((state = ANY (ARRAY['stored'::text, 'expired'::text, 'shredded'::text])))
);

ALTER TABLE ONLY public.artifact FORCE ROW LEVEL SECURITY;

ALTER TABLE public.artifact OWNER TO offerlog_owner;

CREATE VIEW audit_v1.artifact AS
 SELECT a.tenant,
    a.object AS name,
    e."offset",
    e.item,
    e.sum AS sha256,
    e.length,
    a.key_id,
    a.state,
    a.topic_id,
    a.partition,
    a.first,
    a.last
   FROM (public.artifact a
     CROSS JOIN LATERAL UNNEST(a.offsets, a.items, a.sums, a.lengths) e("offset", item, sum, length));

ALTER TABLE audit_v1.artifact OWNER TO offerlog_inspector;

CREATE VIEW audit_v1.artifact_object AS
 SELECT a.tenant,
    a.object AS name,
    a.topic_id,
    a.partition,
    a.first,
    a.last,
    a.key_id,
    a.length,
    a.state,
    a.offsets,
    a.items,
    a.sums AS sha256,
    a.lengths,
    a.pruning
   FROM public.artifact a;

ALTER TABLE audit_v1.artifact_object OWNER TO offerlog_inspector;

CREATE VIEW audit_v1.checkpoint AS
 SELECT p.generation,
    p.partition,
    p.topic_id,
    p.next,
    p.lane,
    p.publishes
   FROM public.projection p;

ALTER TABLE audit_v1.checkpoint OWNER TO offerlog_inspector;

CREATE TABLE public.sighting (
    lane integer NOT NULL,
    seq bigint NOT NULL,
    tenant text NOT NULL,
    offer uuid NOT NULL,
    strong boolean NOT NULL,
    ord bigint NOT NULL,
    observation uuid NOT NULL,
    delivery uuid NOT NULL,
    "row" integer NOT NULL,
    weak_identity boolean DEFAULT false NOT NULL,
    observed_ns bigint NOT NULL,
    observed_at text NOT NULL,
    retrieved_ns bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    run uuid,
    held boolean DEFAULT false NOT NULL,
    due_ns bigint
);

ALTER TABLE ONLY public.sighting FORCE ROW LEVEL SECURITY;

ALTER TABLE public.sighting OWNER TO offerlog_owner;

CREATE VIEW audit_v1.claim AS
 SELECT o.lane,
    o.seq,
    o.tenant,
    o.offer,
    o.strong,
    o.ord,
    o.id AS observation,
    o.delivery,
    o."row",
    o.weak_identity,
    o.observed_ns,
    o.observed_at,
    o.retrieved_ns,
    o.recorded_at,
    o.run,
    o.held,
    o.due_ns,
    false AS sighting
   FROM public.observation o
UNION ALL
 SELECT s.lane,
    s.seq,
    s.tenant,
    s.offer,
    s.strong,
    s.ord,
    s.observation,
    s.delivery,
    s."row",
    s.weak_identity,
    s.observed_ns,
    s.observed_at,
    s.retrieved_ns,
    s.recorded_at,
    s.run,
    s.held,
    s.due_ns,
    true AS sighting
   FROM public.sighting s;

ALTER TABLE audit_v1.claim OWNER TO offerlog_inspector;

CREATE TABLE public.commit_journal (
    lane integer NOT NULL,
    from_offset bigint NOT NULL,
    to_offset bigint NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL,
    worker text NOT NULL,
    recorded_at timestamp with time zone NOT NULL
);

ALTER TABLE public.commit_journal OWNER TO offerlog_owner;

CREATE TABLE public.lane (
    id integer NOT NULL,
    kind text NOT NULL,
    topic text NOT NULL,
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    start bigint NOT NULL,
    next bigint NOT NULL,
    sequence bigint DEFAULT 0 NOT NULL,
    clock timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    starts integer DEFAULT 0 NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    halt_reason text,
    halt_from bigint,
    halt_to bigint,
    halted_at timestamp with time zone,
    retired_at timestamp with time zone,
    CONSTRAINT lane_kind_check CHECK ((kind = ANY (ARRAY['input'::text, 'projector'::text])))
)
WITH (fillfactor='50');

ALTER TABLE public.lane OWNER TO offerlog_owner;

CREATE VIEW audit_v1.commit_journal AS
 SELECT l.topic_id,
    l.partition,
    j.lane,
    j.from_offset,
    j.to_offset,
    j.from_seq,
    j.to_seq,
    j.worker AS owner,
    j.recorded_at
   FROM (public.commit_journal j
     JOIN public.lane l ON ((l.id = j.lane)));

ALTER TABLE audit_v1.commit_journal OWNER TO offerlog_inspector;

CREATE VIEW audit_v1.current_offer AS
 SELECT c.generation,
    c.tenant,
    c.offer,
    c.account,
    c.record,
    c.partition,
    p.revision,
    p.digest AS published_digest,
    c.observation AS winner,
    c.strong,
    c.ord,
    c.mapping_version,
    c.content,
    c.deleted,
    c.flags,
    c.item
   FROM (public.current_offer c
     LEFT JOIN public.publication p ON (((p.tenant = c.tenant) AND (p.offer = c.offer))));

ALTER TABLE audit_v1.current_offer OWNER TO offerlog_inspector;

CREATE VIEW audit_v1.eligibility AS
 SELECT d.tenant,
    d.subject,
    d.n,
    d.kind,
    d.lane,
    d.seq,
    d.verdict,
    d.standing,
    d.offer,
    d.item_was,
    d.item,
    d.account,
    d.as_of,
    d.feed,
    d.delivery,
    d.mapping_version,
    d.moment,
    d.collected,
    d.reason,
    d.actor,
    d.command,
    d.recorded_at
   FROM public.decision d;

ALTER TABLE audit_v1.eligibility OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.eligibility IS 'decisions on which claims count: within a vector of numbers, the greatest n of each subject';

CREATE TABLE public.gap (
    lane integer NOT NULL,
    command uuid NOT NULL,
    from_offset bigint NOT NULL,
    to_offset bigint NOT NULL,
    reason text NOT NULL,
    actor text NOT NULL,
    why text NOT NULL,
    artifact text,
    recorded_at timestamp with time zone NOT NULL
);

ALTER TABLE public.gap OWNER TO offerlog_owner;

CREATE VIEW audit_v1.gap AS
 SELECT l.topic_id,
    l.partition,
    g.lane,
    g.from_offset,
    g.to_offset,
    g.reason,
    g.command,
    g.actor,
    g.why,
    g.artifact,
    g.recorded_at
   FROM (public.gap g
     JOIN public.lane l ON ((l.id = g.lane)));

ALTER TABLE audit_v1.gap OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.gap IS 'what lanes go on without, by a recorded decision of an operator';

CREATE VIEW audit_v1.generation AS
 SELECT g.id,
    g.created_at,
    g.retired_at,
    (g.id = p.active) AS active,
    g.manifest
   FROM public.generation g,
    public.generation_pointer p;

ALTER TABLE audit_v1.generation OWNER TO offerlog_inspector;

CREATE TABLE public.generation_decision (
    n integer NOT NULL,
    action text NOT NULL,
    generation integer NOT NULL,
    before integer NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT generation_decision_action_check CHECK ((action = ANY (ARRAY['build'::text, 'switch'::text, 'rollback'::text, 'retire'::text])))
);

ALTER TABLE public.generation_decision OWNER TO offerlog_owner;

CREATE VIEW audit_v1.generation_decision AS
 SELECT d.n,
    d.action,
    d.generation,
    d.before,
    d.actor,
    d.reason,
    d.recorded_at
   FROM public.generation_decision d;

ALTER TABLE audit_v1.generation_decision OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.generation_decision IS 'what operators did with generations, and which one was active before';

CREATE TABLE public.relay_cursor (
    lane integer NOT NULL,
    published bigint DEFAULT 0 NOT NULL,
    pruned bigint DEFAULT 0 NOT NULL,
    holder text,
    epoch bigint DEFAULT 0 NOT NULL,
    expires_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    halt_reason text,
    halted_at timestamp with time zone,
    published_at timestamp with time zone
)
WITH (fillfactor='50');

ALTER TABLE public.relay_cursor OWNER TO offerlog_owner;

CREATE VIEW audit_v1.halt AS
 SELECT l.topic_id,
    l.partition,
    l.id AS lane,
    l.halt_reason AS reason,
    l.halt_from AS from_offset,
    l.halt_to AS to_offset,
    l.halted_at
   FROM public.lane l
  WHERE (l.halt_reason IS NOT NULL)
UNION ALL
 SELECT l.topic_id,
    l.partition,
    l.id AS lane,
    c.halt_reason AS reason,
    NULL::bigint AS from_offset,
    NULL::bigint AS to_offset,
    c.halted_at
   FROM (public.relay_cursor c
     JOIN public.lane l ON ((l.id = c.lane)))
  WHERE (c.halt_reason IS NOT NULL);

ALTER TABLE audit_v1.halt OWNER TO offerlog_inspector;

CREATE TABLE public.feed (
    tenant text NOT NULL,
    name text NOT NULL,
    connector text NOT NULL,
    account text NOT NULL,
    source text NOT NULL,
    topics text[] NOT NULL,
    mapping_version integer NOT NULL,
    spec jsonb NOT NULL,
    delivery uuid NOT NULL,
    applied_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.feed FORCE ROW LEVEL SECURITY;

ALTER TABLE public.feed OWNER TO offerlog_owner;

CREATE TABLE public.mapping (
    tenant text NOT NULL,
    feed text NOT NULL,
    version integer NOT NULL,
    digest bytea NOT NULL,
    spec jsonb NOT NULL,
    applied_at timestamp with time zone NOT NULL,
    CONSTRAINT mapping_version_check CHECK ((version > 0))
);

ALTER TABLE ONLY public.mapping FORCE ROW LEVEL SECURITY;

ALTER TABLE public.mapping OWNER TO offerlog_owner;

CREATE VIEW audit_v1.mapping AS
 SELECT m.tenant,
    m.feed,
    m.version,
    m.digest,
    m.spec,
    m.applied_at,
    f.connector,
    f.account
   FROM (public.mapping m
     JOIN public.feed f ON (((f.tenant = m.tenant) AND (f.name = m.feed))));

ALTER TABLE audit_v1.mapping OWNER TO offerlog_inspector;

CREATE VIEW audit_v1.observation AS
 SELECT o.id,
    o.tenant,
    o.offer,
    o.delivery,
    o."row",
    o.feed,
    o.mapping_version,
    o.mpn,
    o.manufacturer,
    o.gtin,
    o.account,
    o.record,
    o.revision_key,
    o.strong,
    o.ord,
    o.observed_at,
    o.observed_ns,
    o.retrieved_ns,
    o.recorded_at,
    o.content AS row_hash,
    o.deleted,
    o.lane,
    o.seq,
    o.weak_identity,
    o.item_revision,
    o.packaging,
    o.condition,
    o.quantity,
    o.unit,
    o.per,
    o.price,
    o.currency,
    o.price_breaks,
    o.moq,
    o.order_multiple,
    o.lead_time_days,
    o.stock,
    o.valid_from,
    o.valid_until,
    o.run,
    o.held,
    o.due_ns,
    o.until_ns,
    o.unresolved
   FROM public.observation o;

ALTER TABLE audit_v1.observation OWNER TO offerlog_inspector;

CREATE TABLE public.offer_change (
    tenant text NOT NULL,
    offer uuid NOT NULL,
    revision bigint NOT NULL,
    strong boolean,
    ord bigint,
    observation uuid,
    flags text[] NOT NULL,
    item text[],
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT offer_change_check CHECK ((num_nulls(strong, ord, observation) = ANY (ARRAY[0, 3])))
);

ALTER TABLE ONLY public.offer_change FORCE ROW LEVEL SECURITY;

ALTER TABLE public.offer_change OWNER TO offerlog_owner;

CREATE VIEW audit_v1.offer_change AS
 SELECT c.tenant,
    c.offer,
    c.revision,
    c.strong,
    c.ord,
    c.observation,
    c.flags,
    c.item,
    c.recorded_at
   FROM public.offer_change c;

ALTER TABLE audit_v1.offer_change OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.offer_change IS 'every value that an offer was published with';

CREATE TABLE public.outbox (
    slot integer NOT NULL,
    lane integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    kind text NOT NULL,
    topic text,
    key text,
    event_id uuid,
    event_type text,
    body bytea,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT outbox_kind_check CHECK ((kind = ANY (ARRAY['history'::text, 'event'::text, 'broadcast'::text])))
)
PARTITION BY LIST (slot);

ALTER TABLE ONLY public.outbox FORCE ROW LEVEL SECURITY;

ALTER TABLE public.outbox OWNER TO offerlog_owner;

CREATE VIEW audit_v1.outbox AS
 SELECT x.lane,
    n.seq,
    x.kind,
    x.topic,
    x.key,
    x.event_id,
    x.event_type,
    x.body
   FROM (public.outbox x
     CROSS JOIN LATERAL generate_series(x.first, x.last) n(seq));

ALTER TABLE audit_v1.outbox OWNER TO offerlog_inspector;

CREATE TABLE public.outcome (
    lane integer NOT NULL,
    "offset" bigint NOT NULL,
    item integer NOT NULL,
    tenant text NOT NULL,
    delivery uuid,
    feed text,
    event_source text,
    event_id text,
    event_type text,
    declared text,
    outcome text NOT NULL,
    reason text,
    detail text,
    message text,
    canonicalization text,
    fingerprint bytea,
    archived boolean NOT NULL,
    accepted_lane integer,
    accepted_offset bigint,
    accepted_item integer,
    mapping_version integer,
    rows integer DEFAULT 0 NOT NULL,
    saved integer DEFAULT 0 NOT NULL,
    duplicate integer DEFAULT 0 NOT NULL,
    old integer DEFAULT 0 NOT NULL,
    ambiguous_order integer DEFAULT 0 NOT NULL,
    rejected integer DEFAULT 0 NOT NULL,
    rejections jsonb,
    warnings jsonb,
    run text,
    page integer,
    first_seq bigint,
    last_seq bigint,
    result_seq bigint,
    beyond_horizon boolean,
    retrieved_ns bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT outcome_outcome_check CHECK ((outcome = ANY (ARRAY['accepted'::text, 'duplicate'::text, 'quarantined'::text, 'skipped'::text, 'reread'::text])))
);

ALTER TABLE ONLY public.outcome FORCE ROW LEVEL SECURITY;

ALTER TABLE public.outcome OWNER TO offerlog_owner;

CREATE VIEW audit_v1.outcome AS
 SELECT l.topic_id,
    l.partition,
    o."offset",
    o.item,
    o.outcome,
    o.reason,
    o.detail,
    o.tenant,
    o.feed,
    o.delivery,
    o.event_source,
    o.event_id,
    o.event_type,
    o.canonicalization,
    o.fingerprint,
    o.archived,
        CASE
            WHEN o.archived THEN ( SELECT a.object
               FROM public.artifact a
              WHERE (((a.tenant = o.tenant) AND (a.topic_id = l.topic_id) AND (a.partition = l.partition)) AND (a.first <= o."offset") AND (a.last >= o."offset"))
              ORDER BY a.first DESC
             LIMIT 1)
            ELSE NULL::text
        END AS artifact_id,
    o.lane,
    o.accepted_lane,
    o.accepted_offset,
    o.accepted_item,
    o.mapping_version,
    o.rows,
    o.saved,
    o.duplicate,
    o.old,
    o.ambiguous_order,
    o.rejected,
    o.rejections,
    o.run,
    o.page,
    o.first_seq,
    o.last_seq,
    o.retrieved_ns,
    o.recorded_at,
    o.declared,
    o.beyond_horizon,
    o.result_seq
   FROM (public.outcome o
     JOIN public.lane l ON ((l.id = o.lane)));

ALTER TABLE audit_v1.outcome OWNER TO offerlog_inspector;

CREATE VIEW audit_v1."position" AS
 SELECT l.topic_id,
    l.partition,
    l.next,
    l.id AS lane,
    l.kind,
    l.topic,
    l.start,
    l.sequence,
    l.clock,
    l.retired_at
   FROM public.lane l;

ALTER TABLE audit_v1."position" OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1."position" IS 'the checkpoint of each lane: the first offset not yet stored, the last number given';

CREATE VIEW audit_v1.projection AS
 SELECT p.generation,
    p.partition,
    p.next,
    p.lane AS projector_lane,
    a.lane,
    a.applied_seq
   FROM (public.projection p
     CROSS JOIN LATERAL UNNEST(p.lanes, p.applied) a(lane, applied_seq));

ALTER TABLE audit_v1.projection OWNER TO offerlog_inspector;

CREATE TABLE public.pruning (
    tenant text NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    feed text,
    before timestamp with time zone,
    removed bigint NOT NULL,
    actor text,
    reason text NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT pruning_kind_check CHECK ((kind = ANY (ARRAY['keys'::text, 'artifacts'::text, 'runs'::text, 'quarantine'::text])))
);

ALTER TABLE ONLY public.pruning FORCE ROW LEVEL SECURITY;

ALTER TABLE public.pruning OWNER TO offerlog_owner;

CREATE VIEW audit_v1.pruning AS
 SELECT p.tenant,
    p.id,
    p.kind,
    p.feed,
    p.before,
    p.removed,
    p.actor,
    p.reason,
    p.recorded_at
   FROM public.pruning p;

ALTER TABLE audit_v1.pruning OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.pruning IS 'what was removed on purpose: a receipt for each removal';

CREATE TABLE public.quarantine (
    tenant text NOT NULL,
    id uuid NOT NULL,
    delivery uuid,
    feed text,
    "row" integer DEFAULT 0 NOT NULL,
    reason text NOT NULL,
    detail text,
    message text,
    line integer,
    "column" integer,
    path text,
    event_source text,
    event_id text,
    canonicalization text,
    fingerprint bytea,
    lane integer NOT NULL,
    "offset" bigint NOT NULL,
    item integer NOT NULL,
    archived boolean NOT NULL,
    content jsonb,
    observation uuid,
    state text DEFAULT 'open'::text NOT NULL,
    resolved_by uuid,
    settled_at timestamp with time zone,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT quarantine_check CHECK (((state = 'open'::text) = (settled_at IS NULL))),
    CONSTRAINT quarantine_state_check CHECK ((state = ANY (ARRAY['open'::text, 'released'::text, 'rejected'::text, 'resolved'::text])))
);

ALTER TABLE ONLY public.quarantine FORCE ROW LEVEL SECURITY;

ALTER TABLE public.quarantine OWNER TO offerlog_owner;

CREATE VIEW audit_v1.quarantine AS
 SELECT q.tenant,
    q.id,
    q.delivery,
    q.feed,
    q."row",
    q.reason,
    q.detail,
    q.lane,
    q."offset",
    q.item,
    q.archived,
    q.fingerprint,
    q.state,
    q.recorded_at,
    q.settled_at
   FROM public.quarantine q;

ALTER TABLE audit_v1.quarantine OWNER TO offerlog_inspector;

CREATE TABLE public.quarantine_decision (
    tenant text NOT NULL,
    entry uuid NOT NULL,
    n integer NOT NULL,
    verdict text NOT NULL,
    delivery uuid,
    release integer NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    command uuid NOT NULL,
    lane integer,
    seq bigint,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT quarantine_decision_check CHECK ((((verdict = 'rejected'::text) = (lane IS NULL)) AND ((lane IS NULL) = (seq IS NULL)))),
    CONSTRAINT quarantine_decision_n_check CHECK ((n > 0)),
    CONSTRAINT quarantine_decision_verdict_check CHECK ((verdict = ANY (ARRAY['released'::text, 'rejected'::text, 'redriven'::text])))
);

ALTER TABLE ONLY public.quarantine_decision FORCE ROW LEVEL SECURITY;

ALTER TABLE public.quarantine_decision OWNER TO offerlog_owner;

CREATE VIEW audit_v1.quarantine_decision AS
 SELECT d.tenant,
    d.entry,
    d.n,
    d.verdict,
    d.delivery,
    d.release,
    d.actor,
    d.reason,
    d.command,
    d.lane,
    d.seq,
    d.recorded_at
   FROM public.quarantine_decision d;

ALTER TABLE audit_v1.quarantine_decision OWNER TO offerlog_inspector;

CREATE TABLE public.receipt (
    tenant text NOT NULL,
    delivery uuid NOT NULL,
    canonicalization text NOT NULL,
    fingerprint bytea NOT NULL,
    lane integer NOT NULL,
    "offset" bigint NOT NULL,
    item integer NOT NULL
);

ALTER TABLE ONLY public.receipt FORCE ROW LEVEL SECURITY;

ALTER TABLE public.receipt OWNER TO offerlog_owner;

CREATE VIEW audit_v1.receipt AS
 SELECT r.tenant,
    r.delivery,
    r.canonicalization,
    r.fingerprint,
    r.lane,
    r."offset",
    r.item
   FROM public.receipt r;

ALTER TABLE audit_v1.receipt OWNER TO offerlog_inspector;

CREATE TABLE public.receipt_horizon (
    lane integer NOT NULL,
    keep_ns bigint NOT NULL,
    expired bigint NOT NULL
);

ALTER TABLE public.receipt_horizon OWNER TO offerlog_owner;

CREATE VIEW audit_v1.receipt_horizon AS
 SELECT h.lane,
    max(h.expired) AS expired
   FROM public.receipt_horizon h
  GROUP BY h.lane;

ALTER TABLE audit_v1.receipt_horizon OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.receipt_horizon IS 'below this offset of a lane, an accepted delivery may have no receipt any more';

CREATE TABLE public.recovery (
    stage text NOT NULL,
    lane integer NOT NULL,
    slot integer NOT NULL,
    n bigint NOT NULL,
    worker text NOT NULL,
    predecessor text,
    heard bigint NOT NULL,
    checkpoint bigint NOT NULL,
    until bigint NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    left_at timestamp with time zone,
    CONSTRAINT recovery_check CHECK (((heard <= checkpoint) AND (checkpoint <= until))),
    CONSTRAINT recovery_stage_check CHECK ((stage = ANY (ARRAY['ingest'::text, 'relay'::text, 'project'::text])))
);

ALTER TABLE public.recovery OWNER TO offerlog_owner;

CREATE VIEW audit_v1.recovery AS
 SELECT r.stage,
    l.topic,
    l.topic_id,
    l.partition,
    r.lane,
    r.n,
    r.worker,
    r.predecessor,
    r.heard,
    r.checkpoint,
    r.until,
    COALESCE(lead(r.checkpoint) OVER following,
        CASE r.stage
            WHEN 'relay'::text THEN c.published
            ELSE l.next
        END) AS reached,
    (lead(r.n) OVER following IS NULL) AS latest,
    r.started_at,
    r.left_at,
        CASE r.stage
            WHEN 'relay'::text THEN c.published_at
            ELSE NULLIF(l.clock, '-infinity'::timestamp with time zone)
        END AS moved_at
   FROM ((public.recovery r
     JOIN public.lane l ON ((l.id = r.lane)))
     LEFT JOIN public.relay_cursor c ON ((c.lane = r.lane)))
  WINDOW following AS (PARTITION BY r.stage, r.lane ORDER BY r.n);

ALTER TABLE audit_v1.recovery OWNER TO offerlog_inspector;

CREATE VIEW audit_v1.relay AS
 SELECT c.lane,
    c.published AS published_seq,
    c.pruned AS pruned_seq,
    c.holder,
    c.epoch
   FROM public.relay_cursor c;

ALTER TABLE audit_v1.relay OWNER TO offerlog_inspector;

CREATE TABLE public.replay (
    tenant text NOT NULL,
    lane integer NOT NULL,
    "offset" bigint NOT NULL,
    entry_tenant text NOT NULL,
    entry uuid,
    release integer NOT NULL,
    "row" integer NOT NULL,
    origin_lane integer NOT NULL,
    origin_offset bigint NOT NULL,
    origin_item integer NOT NULL,
    of_run uuid,
    CONSTRAINT replay_of_one CHECK ((num_nonnulls(entry, of_run) = 1))
);

ALTER TABLE ONLY public.replay FORCE ROW LEVEL SECURITY;

ALTER TABLE public.replay OWNER TO offerlog_owner;

CREATE VIEW audit_v1.replay AS
 SELECT r.tenant,
    r.lane,
    r."offset",
    r.entry_tenant,
    r.entry,
    r.release,
    r."row",
    r.origin_lane,
    r.origin_offset,
    r.origin_item,
    r.of_run
   FROM public.replay r;

ALTER TABLE audit_v1.replay OWNER TO offerlog_inspector;

CREATE TABLE public.replay_page (
    tenant text NOT NULL,
    replay uuid NOT NULL,
    page integer NOT NULL,
    command uuid NOT NULL,
    lane integer NOT NULL,
    first_seq bigint,
    last_seq bigint,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT replay_page_check CHECK (((first_seq IS NULL) = (last_seq IS NULL))),
    CONSTRAINT replay_page_page_check CHECK ((page > 0))
);

ALTER TABLE ONLY public.replay_page FORCE ROW LEVEL SECURITY;

ALTER TABLE public.replay_page OWNER TO offerlog_owner;

CREATE VIEW audit_v1.replay_page AS
 SELECT p.tenant,
    p.replay,
    p.page,
    p.command,
    p.lane,
    p.first_seq,
    p.last_seq,
    p.recorded_at
   FROM public.replay_page p;

ALTER TABLE audit_v1.replay_page OWNER TO offerlog_inspector;

CREATE TABLE public.replay_run (
    tenant text NOT NULL,
    id uuid NOT NULL,
    selection jsonb NOT NULL,
    lanes integer[] NOT NULL,
    froms bigint[] NOT NULL,
    tos bigint[] NOT NULL,
    rate integer NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    pages integer DEFAULT 0 NOT NULL,
    lane integer DEFAULT 0 NOT NULL,
    "offset" bigint DEFAULT 0 NOT NULL,
    item integer DEFAULT 0 NOT NULL,
    sent bigint DEFAULT 0 NOT NULL,
    answered bigint DEFAULT 0 NOT NULL,
    due timestamp with time zone NOT NULL,
    resumed integer DEFAULT 0 NOT NULL,
    again boolean DEFAULT false NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT replay_run_rate_check CHECK ((rate > 0)),
    CONSTRAINT replay_run_state_check CHECK ((state = ANY (ARRAY['running'::text, 'paused'::text, 'cancelled'::text, 'sent'::text])))
);

ALTER TABLE ONLY public.replay_run FORCE ROW LEVEL SECURITY;

ALTER TABLE public.replay_run OWNER TO offerlog_owner;

CREATE VIEW audit_v1.replay_run AS
 SELECT r.tenant,
    r.id,
    r.selection,
    r.rate,
    r.state,
    r.pages,
    r.sent,
    r.answered,
    r.actor,
    r.reason,
    r.recorded_at
   FROM public.replay_run r;

ALTER TABLE audit_v1.replay_run OWNER TO offerlog_inspector;

CREATE TABLE public.run (
    tenant text NOT NULL,
    id uuid NOT NULL,
    feed text NOT NULL,
    name text NOT NULL,
    recorded_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.run FORCE ROW LEVEL SECURITY;

ALTER TABLE public.run OWNER TO offerlog_owner;

CREATE TABLE public.run_page (
    tenant text NOT NULL,
    run uuid NOT NULL,
    page integer NOT NULL,
    pages integer,
    delivery uuid NOT NULL,
    observed_ns bigint,
    rejected integer NOT NULL,
    held boolean NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT run_page_page_check CHECK ((page > 0))
);

ALTER TABLE ONLY public.run_page FORCE ROW LEVEL SECURITY;

ALTER TABLE public.run_page OWNER TO offerlog_owner;

CREATE VIEW audit_v1.run AS
 SELECT r.tenant,
    r.id,
    r.feed,
    r.name AS run,
    r.recorded_at,
    p.page,
    p.pages,
    p.delivery,
    p.observed_ns,
    p.rejected
   FROM (public.run r
     LEFT JOIN public.run_page p ON (((p.tenant = r.tenant) AND (p.run = r.id))));

ALTER TABLE audit_v1.run OWNER TO offerlog_inspector;

CREATE TABLE public.run_event (
    tenant text NOT NULL,
    run uuid NOT NULL,
    delivery uuid NOT NULL,
    kind text NOT NULL,
    at text NOT NULL,
    credential text,
    pages integer,
    page integer,
    attempt integer,
    error text,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT run_event_kind_check CHECK ((kind = ANY (ARRAY['started'::text, 'completed'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.run_event FORCE ROW LEVEL SECURITY;

ALTER TABLE public.run_event OWNER TO offerlog_owner;

CREATE VIEW audit_v1.run_event AS
 SELECT e.tenant,
    e.run,
    e.delivery,
    e.kind,
    e.at,
    e.credential,
    e.pages,
    e.page,
    e.attempt,
    e.error,
    e.recorded_at
   FROM public.run_event e;

ALTER TABLE audit_v1.run_event OWNER TO offerlog_inspector;

CREATE TABLE public.tenant_key (
    tenant text NOT NULL,
    key_id text NOT NULL,
    wrapped bytea,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    retired_at timestamp with time zone,
    destroyed_at timestamp with time zone,
    pruning uuid,
    CONSTRAINT tenant_key_check CHECK (((destroyed_at IS NULL) = (wrapped IS NOT NULL)))
);

ALTER TABLE ONLY public.tenant_key FORCE ROW LEVEL SECURITY;

ALTER TABLE public.tenant_key OWNER TO offerlog_owner;

CREATE VIEW audit_v1.tenant_key AS
 SELECT k.tenant,
    k.key_id,
    k.created_at,
    k.retired_at,
    k.destroyed_at,
    k.pruning
   FROM public.tenant_key k;

ALTER TABLE audit_v1.tenant_key OWNER TO offerlog_inspector;

CREATE TABLE public.tick (
    n bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    lanes integer[] NOT NULL,
    upto bigint[] NOT NULL
);

ALTER TABLE public.tick OWNER TO offerlog_owner;

CREATE VIEW audit_v1.tick AS
 SELECT t.n,
    t.at,
    t.lanes,
    t.upto
   FROM public.tick t;

ALTER TABLE audit_v1.tick OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.tick IS 'recorded moments: by that time each lane had reached that number';

CREATE VIEW audit_v1.token AS
 SELECT t.tenant,
    t.id,
    t.name,
    t.role,
    t.created_by,
    t.created_at,
    t.expires_at,
    t.revoked_by,
    t.revoked_at
   FROM public.token t;

ALTER TABLE audit_v1.token OWNER TO offerlog_inspector;

COMMENT ON VIEW audit_v1.token IS 'who could use the HTTP interfaces, as what, and from when to when';

CREATE VIEW public.delivery_reading WITH (security_invoker='true') AS
 SELECT r.tenant,
    r.delivery,
    o.lane,
    o.first_seq,
    o.last_seq
   FROM (public.receipt r
     JOIN public.outcome o ON (((o.lane = r.lane) AND (o."offset" = r."offset") AND (o.item = r.item))))
UNION ALL
 SELECT o.tenant,
    o.delivery,
    o.lane,
    o.first_seq,
    o.last_seq
   FROM public.outcome o
  WHERE (o.outcome = 'reread'::text);

ALTER TABLE public.delivery_reading OWNER TO offerlog_owner;

CREATE TABLE public.feed_route (
    topic text NOT NULL,
    source text NOT NULL,
    tenant text NOT NULL,
    feed text NOT NULL
);

ALTER TABLE ONLY public.feed_route FORCE ROW LEVEL SECURITY;

ALTER TABLE public.feed_route OWNER TO offerlog_owner;

CREATE TABLE public.janitor_task (
    task text NOT NULL,
    due_at timestamp with time zone NOT NULL
);

ALTER TABLE public.janitor_task OWNER TO offerlog_owner;

CREATE TABLE public.outbox_0 (
    slot integer NOT NULL,
    lane integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    kind text NOT NULL,
    topic text,
    key text,
    event_id uuid,
    event_type text,
    body bytea,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT outbox_kind_check CHECK ((kind = ANY (ARRAY['history'::text, 'event'::text, 'broadcast'::text])))
);

ALTER TABLE ONLY public.outbox_0 FORCE ROW LEVEL SECURITY;

ALTER TABLE public.outbox_0 OWNER TO offerlog_owner;

CREATE TABLE public.outbox_1 (
    slot integer NOT NULL,
    lane integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    kind text NOT NULL,
    topic text,
    key text,
    event_id uuid,
    event_type text,
    body bytea,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT outbox_kind_check CHECK ((kind = ANY (ARRAY['history'::text, 'event'::text, 'broadcast'::text])))
);

ALTER TABLE ONLY public.outbox_1 FORCE ROW LEVEL SECURITY;

ALTER TABLE public.outbox_1 OWNER TO offerlog_owner;

CREATE TABLE public.outbox_2 (
    slot integer NOT NULL,
    lane integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    kind text NOT NULL,
    topic text,
    key text,
    event_id uuid,
    event_type text,
    body bytea,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT outbox_kind_check CHECK ((kind = ANY (ARRAY['history'::text, 'event'::text, 'broadcast'::text])))
);

ALTER TABLE ONLY public.outbox_2 FORCE ROW LEVEL SECURITY;

ALTER TABLE public.outbox_2 OWNER TO offerlog_owner;

CREATE TABLE public.outbox_ring (
    singleton boolean DEFAULT true NOT NULL,
    slot integer NOT NULL,
    CONSTRAINT outbox_ring_singleton_check CHECK (singleton)
);

ALTER TABLE public.outbox_ring OWNER TO offerlog_owner;

CREATE VIEW public.readable_generation AS
 SELECT g.id,
    (g.id = a.active) AS active
   FROM public.generation g,
    public.generation_pointer a
  WHERE ((g.retired_at IS NULL) AND ((g.id = a.active) OR (EXISTS ( SELECT
           FROM public.generation_decision d
          WHERE ((d.before = g.id) AND (d.action = ANY (ARRAY['switch'::text, 'rollback'::text])))))));

ALTER TABLE public.readable_generation OWNER TO offerlog_owner;

CREATE TABLE public.registry (
    singleton boolean DEFAULT true NOT NULL,
    version bigint NOT NULL,
    CONSTRAINT registry_singleton_check CHECK (singleton)
);

ALTER TABLE public.registry OWNER TO offerlog_owner;

CREATE TABLE public.snapshot_account (
    tenant text NOT NULL,
    account text NOT NULL
);

ALTER TABLE ONLY public.snapshot_account FORCE ROW LEVEL SECURITY;

ALTER TABLE public.snapshot_account OWNER TO offerlog_owner;

CREATE TABLE public.snapshot_record (
    tenant text NOT NULL,
    account text NOT NULL,
    offer uuid NOT NULL,
    record text NOT NULL
);

ALTER TABLE ONLY public.snapshot_record FORCE ROW LEVEL SECURITY;

ALTER TABLE public.snapshot_record OWNER TO offerlog_owner;

CREATE VIEW public.tenant_manifest WITH (security_barrier='true') AS
 SELECT g.id AS generation,
    ((g.manifest || (t.part - ARRAY['tenant'::text, 'mappings'::text])) || jsonb_build_object('tenants', jsonb_build_array(t.part))) AS manifest
   FROM (public.generation g
     CROSS JOIN LATERAL jsonb_array_elements((g.manifest -> 'tenants'::text)) t(part))
  WHERE ((t.part ->> 'tenant'::text) = public.current_tenant());

ALTER TABLE public.tenant_manifest OWNER TO offerlog_owner;

CREATE TABLE public.tick_head (
    singleton boolean DEFAULT true NOT NULL,
    n bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT tick_head_singleton_check CHECK (singleton)
);

ALTER TABLE public.tick_head OWNER TO offerlog_owner;

ALTER TABLE ONLY public.outbox ATTACH PARTITION public.outbox_0 FOR VALUES IN (0);

ALTER TABLE ONLY public.outbox ATTACH PARTITION public.outbox_1 FOR VALUES IN (1);

ALTER TABLE ONLY public.outbox ATTACH PARTITION public.outbox_2 FOR VALUES IN (2);

ALTER TABLE ONLY public.artifact
    ADD CONSTRAINT artifact_pkey PRIMARY KEY (tenant, topic_id, partition, first, object);

ALTER TABLE ONLY public.commit_journal
    ADD CONSTRAINT commit_journal_pkey PRIMARY KEY (lane, from_offset);

ALTER TABLE ONLY public.current_offer
    ADD CONSTRAINT current_offer_pkey PRIMARY KEY (tenant, generation, offer);

ALTER TABLE ONLY public.decision
    ADD CONSTRAINT decision_pkey PRIMARY KEY (tenant, subject, n);

ALTER TABLE ONLY public.feed
    ADD CONSTRAINT feed_pkey PRIMARY KEY (tenant, name);

ALTER TABLE ONLY public.feed_route
    ADD CONSTRAINT feed_route_pkey PRIMARY KEY (topic, source);

ALTER TABLE ONLY public.gap
    ADD CONSTRAINT gap_pkey PRIMARY KEY (lane, command);

ALTER TABLE ONLY public.generation_decision
    ADD CONSTRAINT generation_decision_pkey PRIMARY KEY (n);

ALTER TABLE ONLY public.generation
    ADD CONSTRAINT generation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.generation_pointer
    ADD CONSTRAINT generation_pointer_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY public.janitor_task
    ADD CONSTRAINT janitor_task_pkey PRIMARY KEY (task);

ALTER TABLE ONLY public.lane
    ADD CONSTRAINT lane_kind_topic_id_partition_key UNIQUE (kind, topic_id, partition);

ALTER TABLE ONLY public.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.mapping
    ADD CONSTRAINT mapping_pkey PRIMARY KEY (tenant, feed, version);

ALTER TABLE ONLY public.observation
    ADD CONSTRAINT observation_pkey PRIMARY KEY (tenant, offer, strong, ord, id);

ALTER TABLE ONLY public.offer_change
    ADD CONSTRAINT offer_change_pkey PRIMARY KEY (tenant, offer, revision);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (slot, lane, first);

ALTER TABLE ONLY public.outbox_0
    ADD CONSTRAINT outbox_0_pkey PRIMARY KEY (slot, lane, first);

ALTER TABLE ONLY public.outbox_1
    ADD CONSTRAINT outbox_1_pkey PRIMARY KEY (slot, lane, first);

ALTER TABLE ONLY public.outbox_2
    ADD CONSTRAINT outbox_2_pkey PRIMARY KEY (slot, lane, first);

ALTER TABLE ONLY public.outbox_ring
    ADD CONSTRAINT outbox_ring_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY public.outcome
    ADD CONSTRAINT outcome_pkey PRIMARY KEY (lane, "offset", item);

ALTER TABLE ONLY public.projection
    ADD CONSTRAINT projection_pkey PRIMARY KEY (generation, partition);

ALTER TABLE ONLY public.pruning
    ADD CONSTRAINT pruning_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.publication
    ADD CONSTRAINT publication_pkey PRIMARY KEY (tenant, offer);

ALTER TABLE ONLY public.quarantine_decision
    ADD CONSTRAINT quarantine_decision_pkey PRIMARY KEY (tenant, entry, n);

ALTER TABLE ONLY public.quarantine
    ADD CONSTRAINT quarantine_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.receipt_horizon
    ADD CONSTRAINT receipt_horizon_pkey PRIMARY KEY (lane, keep_ns);

ALTER TABLE ONLY public.receipt
    ADD CONSTRAINT receipt_pkey PRIMARY KEY (tenant, delivery);

ALTER TABLE ONLY public.recovery
    ADD CONSTRAINT recovery_pkey PRIMARY KEY (stage, lane, slot);

ALTER TABLE ONLY public.registry
    ADD CONSTRAINT registry_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY public.relay_cursor
    ADD CONSTRAINT relay_cursor_pkey PRIMARY KEY (lane);

ALTER TABLE ONLY public.replay_page
    ADD CONSTRAINT replay_page_pkey PRIMARY KEY (tenant, replay, page);

ALTER TABLE ONLY public.replay
    ADD CONSTRAINT replay_pkey PRIMARY KEY (tenant, lane, "offset");

ALTER TABLE ONLY public.replay_run
    ADD CONSTRAINT replay_run_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.run_event
    ADD CONSTRAINT run_event_pkey PRIMARY KEY (tenant, run, delivery);

ALTER TABLE ONLY public.run_page
    ADD CONSTRAINT run_page_pkey PRIMARY KEY (tenant, run, page, delivery);

ALTER TABLE ONLY public.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.sighting
    ADD CONSTRAINT sighting_pkey PRIMARY KEY (lane, seq);

ALTER TABLE ONLY public.snapshot_account
    ADD CONSTRAINT snapshot_account_pkey PRIMARY KEY (tenant, account);

ALTER TABLE ONLY public.snapshot_record
    ADD CONSTRAINT snapshot_record_pkey PRIMARY KEY (tenant, account, offer);

ALTER TABLE ONLY public.tenant_key
    ADD CONSTRAINT tenant_key_pkey PRIMARY KEY (tenant, key_id);

ALTER TABLE ONLY public.tick_head
    ADD CONSTRAINT tick_head_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY public.tick
    ADD CONSTRAINT tick_pkey PRIMARY KEY (n);

ALTER TABLE ONLY public.token
    ADD CONSTRAINT token_pkey PRIMARY KEY (tenant, id);

CREATE INDEX current_offer_deleted ON public.current_offer USING btree (tenant, generation, offer) WHERE deleted;

CREATE INDEX decision_delivery ON public.decision USING btree (tenant, subject) WHERE (kind = 'delivery'::text);

CREATE INDEX decision_feed ON public.decision USING btree (tenant, feed, n) WHERE (kind = 'feed'::text);

CREATE INDEX decision_horizon ON public.decision USING btree (tenant, feed, collected) WHERE (kind = 'horizon'::text);

CREATE INDEX decision_item ON public.decision USING btree (tenant, offer) WHERE (kind = 'item'::text);

CREATE UNIQUE INDEX decision_lane ON public.decision USING btree (lane, seq);

CREATE INDEX decision_mapping ON public.decision USING btree (tenant, feed, mapping_version, n) WHERE (kind = 'mapping'::text);

CREATE INDEX decision_moment ON public.decision USING btree (tenant, moment) WHERE (moment IS NOT NULL);

CREATE INDEX decision_observation ON public.decision USING btree (tenant, subject) WHERE (kind = 'observation'::text);

CREATE INDEX decision_reading ON public.decision USING btree (tenant, delivery, mapping_version) WHERE (kind = 'reading'::text);

CREATE INDEX decision_snapshot ON public.decision USING btree (tenant, account, as_of, subject) WHERE (as_of IS NOT NULL);

CREATE INDEX observation_due ON public.observation USING btree (tenant, due_ns) WHERE (due_ns IS NOT NULL);

CREATE UNIQUE INDEX observation_lane ON public.observation USING btree (lane, seq);

CREATE INDEX observation_run ON public.observation USING btree (tenant, run, offer) WHERE (run IS NOT NULL);

CREATE INDEX observation_until ON public.observation USING btree (tenant, until_ns) WHERE (until_ns IS NOT NULL);

CREATE INDEX outcome_repeat ON public.outcome USING btree (tenant, delivery) WHERE (outcome <> 'accepted'::text);

CREATE UNIQUE INDEX quarantine_decision_lane ON public.quarantine_decision USING btree (lane, seq) WHERE (lane IS NOT NULL);

CREATE UNIQUE INDEX quarantine_decision_release ON public.quarantine_decision USING btree (tenant, delivery, release) WHERE (release > 0);

CREATE INDEX quarantine_delivery ON public.quarantine USING btree (tenant, delivery) WHERE (state = 'open'::text);

CREATE INDEX quarantine_settled ON public.quarantine USING btree (tenant, feed, settled_at) WHERE (state <> 'open'::text);

CREATE INDEX quarantine_unreached ON public.quarantine USING btree (tenant, id) WHERE ((state = 'open'::text) AND (reason = 'dataref_unavailable'::text));

CREATE INDEX replay_of_run ON public.replay USING btree (tenant, of_run, origin_lane, origin_offset, origin_item) WHERE (of_run IS NOT NULL);

CREATE INDEX replay_run_due ON public.replay_run USING btree (due) WHERE (state = 'running'::text);

CREATE UNIQUE INDEX run_page_delivery ON public.run_page USING btree (tenant, delivery);

CREATE INDEX run_recorded ON public.run USING btree (tenant, recorded_at);

CREATE INDEX sighting_due ON public.sighting USING btree (tenant, due_ns) WHERE (due_ns IS NOT NULL);

CREATE INDEX sighting_offer ON public.sighting USING btree (tenant, offer, observation);

CREATE INDEX sighting_run ON public.sighting USING btree (tenant, run, offer) WHERE (run IS NOT NULL);

CREATE INDEX tick_at ON public.tick USING btree (at, n);

CREATE UNIQUE INDEX token_sha256 ON public.token USING btree (sha256);

ALTER INDEX public.outbox_pkey ATTACH PARTITION public.outbox_0_pkey;

ALTER INDEX public.outbox_pkey ATTACH PARTITION public.outbox_1_pkey;

ALTER INDEX public.outbox_pkey ATTACH PARTITION public.outbox_2_pkey;

ALTER TABLE ONLY public.generation_decision
    ADD CONSTRAINT generation_decision_before_fkey FOREIGN KEY (before) REFERENCES public.generation(id);

ALTER TABLE ONLY public.generation_decision
    ADD CONSTRAINT generation_decision_generation_fkey FOREIGN KEY (generation) REFERENCES public.generation(id);

ALTER TABLE ONLY public.generation_pointer
    ADD CONSTRAINT generation_pointer_active_fkey FOREIGN KEY (active) REFERENCES public.generation(id);

ALTER TABLE public.artifact ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.current_offer ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.decision ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.feed ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.feed_route ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.mapping ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.observation ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.offer_change ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.outbox_0 ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.outbox_1 ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.outbox_2 ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.outcome ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.pruning ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.publication ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.quarantine ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.quarantine_decision ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.receipt ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.replay ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.replay_page ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.replay_run ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_event ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_page ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.sighting ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.snapshot_account ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.snapshot_record ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant_key ENABLE ROW LEVEL SECURITY;

CREATE POLICY tenant_offerlog_audit ON public.artifact FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.current_offer FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.decision FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.feed FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.feed_route FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.mapping FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.observation FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.offer_change FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.outcome FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.pruning FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.publication FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.quarantine FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.quarantine_decision FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.receipt FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.replay FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.replay_page FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.replay_run FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.run FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.run_event FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.run_page FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.sighting FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.snapshot_account FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.snapshot_record FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.tenant_key FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_audit ON public.token FOR SELECT TO offerlog_audit USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.current_offer FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.decision FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.feed FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.feed_route FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.mapping FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.observation FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.offer_change FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.outcome FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.publication FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.receipt FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

CREATE POLICY tenant_offerlog_read ON public.sighting FOR SELECT TO offerlog_read USING ((tenant = public.current_tenant()));

ALTER TABLE public.token ENABLE ROW LEVEL SECURITY;

CREATE POLICY worker_offerlog_ingest ON public.artifact TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.decision TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.feed TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.feed_route TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.mapping TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.observation TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.outbox TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.outcome TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.pruning TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.quarantine TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.quarantine_decision TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.receipt TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.replay TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.replay_page TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.replay_run TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.run TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.run_event TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.run_page TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.sighting TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.snapshot_account TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.snapshot_record TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.tenant_key TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_ingest ON public.token TO offerlog_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.artifact TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.current_offer TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.decision TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.feed TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.feed_route TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.mapping TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.observation TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.offer_change TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.outbox TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.outbox_0 TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.outbox_1 TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.outbox_2 TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.outcome TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.pruning TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.publication TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.quarantine TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.quarantine_decision TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.receipt TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.replay TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.replay_page TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.replay_run TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.run TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.run_event TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.run_page TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.sighting TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.snapshot_account TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.snapshot_record TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.tenant_key TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_inspector ON public.token TO offerlog_inspector USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.artifact TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.current_offer FOR SELECT TO offerlog_janitor USING (true);

CREATE POLICY worker_offerlog_janitor ON public.decision FOR SELECT TO offerlog_janitor USING (true);

CREATE POLICY worker_offerlog_janitor ON public.feed TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.observation FOR SELECT TO offerlog_janitor USING (true);

CREATE POLICY worker_offerlog_janitor ON public.outbox TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.outbox_0 TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.outbox_1 TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.outbox_2 TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.outcome TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.pruning TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.quarantine TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.quarantine_decision TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.receipt TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.run TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.run_event TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.run_page TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_janitor ON public.sighting FOR SELECT TO offerlog_janitor USING (true);

CREATE POLICY worker_offerlog_janitor ON public.tenant_key TO offerlog_janitor USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.current_offer TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.decision TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.observation TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.offer_change TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.outbox TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.outcome TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.publication TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.receipt TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_project ON public.sighting TO offerlog_project USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_relay ON public.observation TO offerlog_relay USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_relay ON public.outbox TO offerlog_relay USING (true) WITH CHECK (true);

CREATE POLICY worker_offerlog_relay ON public.sighting TO offerlog_relay USING (true) WITH CHECK (true);

GRANT USAGE ON SCHEMA audit_v1 TO offerlog_inspector;
GRANT USAGE ON SCHEMA audit_v1 TO offerlog_inspect;

GRANT ALL ON SCHEMA public TO offerlog_owner;
GRANT USAGE ON SCHEMA public TO offerlog_inspector;
GRANT USAGE ON SCHEMA public TO offerlog_ingest;
GRANT USAGE ON SCHEMA public TO offerlog_relay;
GRANT USAGE ON SCHEMA public TO offerlog_project;
GRANT USAGE ON SCHEMA public TO offerlog_janitor;
GRANT USAGE ON SCHEMA public TO offerlog_read;
GRANT USAGE ON SCHEMA public TO offerlog_audit;

GRANT SELECT ON TABLE public.current_offer TO offerlog_read;
GRANT SELECT ON TABLE public.current_offer TO offerlog_audit;
GRANT SELECT,DELETE ON TABLE public.current_offer TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.current_offer TO offerlog_project;

GRANT SELECT(tenant) ON TABLE public.current_offer TO offerlog_janitor;

GRANT SELECT(generation) ON TABLE public.current_offer TO offerlog_janitor;

GRANT SELECT(offer) ON TABLE public.current_offer TO offerlog_janitor;

GRANT SELECT(strong) ON TABLE public.current_offer TO offerlog_janitor;

GRANT SELECT(ord) ON TABLE public.current_offer TO offerlog_janitor;

GRANT SELECT(observation) ON TABLE public.current_offer TO offerlog_janitor;

GRANT SELECT(deleted) ON TABLE public.current_offer TO offerlog_janitor;

GRANT SELECT ON TABLE public.generation TO offerlog_project;
GRANT SELECT ON TABLE public.generation TO offerlog_inspector;

GRANT INSERT(id) ON TABLE public.generation TO offerlog_project;
GRANT SELECT(id) ON TABLE public.generation TO offerlog_read;
GRANT SELECT(id) ON TABLE public.generation TO offerlog_audit;

GRANT SELECT(created_at) ON TABLE public.generation TO offerlog_read;
GRANT SELECT(created_at) ON TABLE public.generation TO offerlog_audit;

GRANT UPDATE(retired_at) ON TABLE public.generation TO offerlog_project;
GRANT SELECT(retired_at) ON TABLE public.generation TO offerlog_read;
GRANT SELECT(retired_at) ON TABLE public.generation TO offerlog_audit;

GRANT UPDATE(manifest) ON TABLE public.generation TO offerlog_project;

GRANT SELECT,INSERT,UPDATE ON TABLE public.projection TO offerlog_project;
GRANT SELECT,DELETE ON TABLE public.projection TO offerlog_inspector;
GRANT SELECT ON TABLE public.projection TO offerlog_read;
GRANT SELECT ON TABLE public.projection TO offerlog_audit;

REVOKE ALL ON FUNCTION public.clear(of_generation integer, at_most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.clear(of_generation integer, at_most integer) TO offerlog_project;

GRANT SELECT ON TABLE public.decision TO offerlog_read;
GRANT SELECT ON TABLE public.decision TO offerlog_audit;
GRANT SELECT ON TABLE public.decision TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.decision TO offerlog_ingest;
GRANT SELECT ON TABLE public.decision TO offerlog_project;

GRANT SELECT(tenant) ON TABLE public.decision TO offerlog_janitor;

GRANT SELECT(subject) ON TABLE public.decision TO offerlog_janitor;

GRANT SELECT(n) ON TABLE public.decision TO offerlog_janitor;

GRANT SELECT(verdict) ON TABLE public.decision TO offerlog_janitor;

GRANT SELECT(recorded_at) ON TABLE public.decision TO offerlog_janitor;

GRANT SELECT ON TABLE public.observation TO offerlog_read;
GRANT SELECT ON TABLE public.observation TO offerlog_audit;
GRANT SELECT ON TABLE public.observation TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.observation TO offerlog_ingest;
GRANT SELECT ON TABLE public.observation TO offerlog_relay;
GRANT SELECT ON TABLE public.observation TO offerlog_project;

GRANT SELECT(tenant) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(offer) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(strong) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(ord) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(id) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(lane) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(seq) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(feed) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(recorded_at) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(run) ON TABLE public.observation TO offerlog_janitor;

GRANT SELECT(held) ON TABLE public.observation TO offerlog_janitor;

REVOKE ALL ON FUNCTION public.forget(of_tenant text, of_generation integer, of_offer uuid, of_strong boolean, of_ord bigint, deletion uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.forget(of_tenant text, of_generation integer, of_offer uuid, of_strong boolean, of_ord bigint, deletion uuid) TO offerlog_project;

GRANT SELECT ON TABLE public.observation_row TO offerlog_ingest;
GRANT SELECT ON TABLE public.observation_row TO offerlog_relay;
GRANT SELECT ON TABLE public.observation_row TO offerlog_project;
GRANT SELECT ON TABLE public.observation_row TO offerlog_read;
GRANT SELECT ON TABLE public.observation_row TO offerlog_audit;

REVOKE ALL ON PROCEDURE public.protect(IN tab regclass, IN workers text[], IN readers text[]) FROM PUBLIC;

GRANT SELECT ON TABLE public.token TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.token TO offerlog_ingest;

GRANT SELECT(tenant) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(id) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(name) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(role) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(created_by) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(created_at) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(expires_at) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(revoked_by) ON TABLE public.token TO offerlog_audit;

GRANT SELECT(revoked_at) ON TABLE public.token TO offerlog_audit;

REVOKE ALL ON FUNCTION public.token_by_digest(digest bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION public.token_by_digest(digest bytea) TO offerlog_read;

GRANT SELECT ON TABLE public.generation_pointer TO offerlog_project;
GRANT SELECT ON TABLE public.generation_pointer TO offerlog_read;
GRANT SELECT ON TABLE public.generation_pointer TO offerlog_audit;
GRANT SELECT ON TABLE public.generation_pointer TO offerlog_inspector;
GRANT SELECT ON TABLE public.generation_pointer TO offerlog_janitor;

GRANT UPDATE(active) ON TABLE public.generation_pointer TO offerlog_project;

GRANT SELECT ON TABLE public.publication TO offerlog_read;
GRANT SELECT ON TABLE public.publication TO offerlog_audit;
GRANT SELECT,DELETE ON TABLE public.publication TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.publication TO offerlog_project;

REVOKE ALL ON FUNCTION public.unpublish(of_tenant text, of_offer uuid, of_revision bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.unpublish(of_tenant text, of_offer uuid, of_revision bigint) TO offerlog_project;

GRANT SELECT ON TABLE public.artifact TO offerlog_audit;
GRANT SELECT ON TABLE public.artifact TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.artifact TO offerlog_ingest;
GRANT SELECT ON TABLE public.artifact TO offerlog_janitor;

GRANT UPDATE(state) ON TABLE public.artifact TO offerlog_ingest;
GRANT UPDATE(state) ON TABLE public.artifact TO offerlog_janitor;

GRANT UPDATE(pruning) ON TABLE public.artifact TO offerlog_ingest;
GRANT UPDATE(pruning) ON TABLE public.artifact TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.artifact TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.artifact_object TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.checkpoint TO offerlog_inspect;

GRANT SELECT ON TABLE public.sighting TO offerlog_read;
GRANT SELECT ON TABLE public.sighting TO offerlog_audit;
GRANT SELECT ON TABLE public.sighting TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.sighting TO offerlog_ingest;
GRANT SELECT ON TABLE public.sighting TO offerlog_relay;
GRANT SELECT ON TABLE public.sighting TO offerlog_project;

GRANT SELECT(lane) ON TABLE public.sighting TO offerlog_janitor;

GRANT SELECT(seq) ON TABLE public.sighting TO offerlog_janitor;

GRANT SELECT(run) ON TABLE public.sighting TO offerlog_janitor;

GRANT SELECT(held) ON TABLE public.sighting TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.claim TO offerlog_inspect;

GRANT INSERT ON TABLE public.commit_journal TO offerlog_ingest;
GRANT INSERT ON TABLE public.commit_journal TO offerlog_project;
GRANT SELECT ON TABLE public.commit_journal TO offerlog_inspector;
GRANT SELECT,DELETE,UPDATE ON TABLE public.commit_journal TO offerlog_janitor;

GRANT SELECT,INSERT,UPDATE ON TABLE public.lane TO offerlog_ingest;
GRANT SELECT,INSERT,UPDATE ON TABLE public.lane TO offerlog_project;
GRANT SELECT ON TABLE public.lane TO offerlog_relay;
GRANT SELECT ON TABLE public.lane TO offerlog_janitor;
GRANT SELECT ON TABLE public.lane TO offerlog_inspector;
GRANT SELECT ON TABLE public.lane TO offerlog_read;
GRANT SELECT ON TABLE public.lane TO offerlog_audit;

GRANT SELECT ON TABLE audit_v1.commit_journal TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.current_offer TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.eligibility TO offerlog_inspect;

GRANT SELECT,INSERT ON TABLE public.gap TO offerlog_ingest;
GRANT SELECT ON TABLE public.gap TO offerlog_inspector;
GRANT SELECT ON TABLE public.gap TO offerlog_audit;

GRANT SELECT ON TABLE audit_v1.gap TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.generation TO offerlog_inspect;

GRANT SELECT,INSERT ON TABLE public.generation_decision TO offerlog_project;
GRANT SELECT ON TABLE public.generation_decision TO offerlog_inspector;

GRANT SELECT ON TABLE audit_v1.generation_decision TO offerlog_inspect;

GRANT SELECT,INSERT,UPDATE ON TABLE public.relay_cursor TO offerlog_relay;
GRANT SELECT,UPDATE ON TABLE public.relay_cursor TO offerlog_janitor;
GRANT SELECT ON TABLE public.relay_cursor TO offerlog_inspector;
GRANT SELECT ON TABLE public.relay_cursor TO offerlog_audit;

GRANT SELECT ON TABLE audit_v1.halt TO offerlog_inspect;

GRANT SELECT ON TABLE public.feed TO offerlog_read;
GRANT SELECT ON TABLE public.feed TO offerlog_audit;
GRANT SELECT ON TABLE public.feed TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.feed TO offerlog_ingest;
GRANT SELECT ON TABLE public.feed TO offerlog_janitor;

GRANT SELECT ON TABLE public.mapping TO offerlog_read;
GRANT SELECT ON TABLE public.mapping TO offerlog_audit;
GRANT SELECT ON TABLE public.mapping TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.mapping TO offerlog_ingest;

GRANT SELECT ON TABLE audit_v1.mapping TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.observation TO offerlog_inspect;

GRANT SELECT ON TABLE public.offer_change TO offerlog_read;
GRANT SELECT ON TABLE public.offer_change TO offerlog_audit;
GRANT SELECT ON TABLE public.offer_change TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.offer_change TO offerlog_project;

GRANT SELECT ON TABLE audit_v1.offer_change TO offerlog_inspect;

GRANT SELECT ON TABLE public.outbox TO offerlog_inspector;
GRANT INSERT ON TABLE public.outbox TO offerlog_ingest;
GRANT INSERT ON TABLE public.outbox TO offerlog_project;
GRANT SELECT ON TABLE public.outbox TO offerlog_relay;
GRANT SELECT ON TABLE public.outbox TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.outbox TO offerlog_inspect;

GRANT SELECT ON TABLE public.outcome TO offerlog_audit;
GRANT SELECT ON TABLE public.outcome TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.outcome TO offerlog_ingest;
GRANT SELECT ON TABLE public.outcome TO offerlog_janitor;

GRANT SELECT(lane) ON TABLE public.outcome TO offerlog_project;
GRANT SELECT(lane) ON TABLE public.outcome TO offerlog_read;

GRANT SELECT("offset") ON TABLE public.outcome TO offerlog_project;
GRANT SELECT("offset") ON TABLE public.outcome TO offerlog_read;

GRANT SELECT(item) ON TABLE public.outcome TO offerlog_project;
GRANT SELECT(item) ON TABLE public.outcome TO offerlog_read;

GRANT SELECT(tenant) ON TABLE public.outcome TO offerlog_project;
GRANT SELECT(tenant) ON TABLE public.outcome TO offerlog_read;

GRANT SELECT(delivery) ON TABLE public.outcome TO offerlog_project;
GRANT SELECT(delivery) ON TABLE public.outcome TO offerlog_read;

GRANT SELECT(outcome) ON TABLE public.outcome TO offerlog_project;
GRANT SELECT(outcome) ON TABLE public.outcome TO offerlog_read;

GRANT SELECT(first_seq) ON TABLE public.outcome TO offerlog_project;
GRANT SELECT(first_seq) ON TABLE public.outcome TO offerlog_read;

GRANT SELECT(last_seq) ON TABLE public.outcome TO offerlog_project;
GRANT SELECT(last_seq) ON TABLE public.outcome TO offerlog_read;

GRANT SELECT ON TABLE audit_v1.outcome TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1."position" TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.projection TO offerlog_inspect;

GRANT SELECT ON TABLE public.pruning TO offerlog_audit;
GRANT SELECT ON TABLE public.pruning TO offerlog_inspector;
GRANT INSERT ON TABLE public.pruning TO offerlog_ingest;
GRANT INSERT ON TABLE public.pruning TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.pruning TO offerlog_inspect;

GRANT SELECT ON TABLE public.quarantine TO offerlog_audit;
GRANT SELECT ON TABLE public.quarantine TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.quarantine TO offerlog_ingest;
GRANT DELETE ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(tenant) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(id) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(delivery) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(feed) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(reason) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(lane) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT("offset") ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(item) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(archived) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(state) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(settled_at),UPDATE(settled_at) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT(recorded_at) ON TABLE public.quarantine TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.quarantine TO offerlog_inspect;

GRANT SELECT ON TABLE public.quarantine_decision TO offerlog_audit;
GRANT SELECT ON TABLE public.quarantine_decision TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.quarantine_decision TO offerlog_ingest;

GRANT SELECT(tenant) ON TABLE public.quarantine_decision TO offerlog_janitor;

GRANT SELECT(entry) ON TABLE public.quarantine_decision TO offerlog_janitor;

GRANT SELECT(verdict) ON TABLE public.quarantine_decision TO offerlog_janitor;

GRANT SELECT(recorded_at) ON TABLE public.quarantine_decision TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.quarantine_decision TO offerlog_inspect;

GRANT SELECT ON TABLE public.receipt TO offerlog_read;
GRANT SELECT ON TABLE public.receipt TO offerlog_audit;
GRANT SELECT ON TABLE public.receipt TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.receipt TO offerlog_ingest;
GRANT SELECT,DELETE ON TABLE public.receipt TO offerlog_janitor;

GRANT SELECT(tenant) ON TABLE public.receipt TO offerlog_project;

GRANT SELECT(delivery) ON TABLE public.receipt TO offerlog_project;

GRANT SELECT(lane) ON TABLE public.receipt TO offerlog_project;

GRANT SELECT("offset") ON TABLE public.receipt TO offerlog_project;

GRANT SELECT(item) ON TABLE public.receipt TO offerlog_project;

GRANT SELECT ON TABLE audit_v1.receipt TO offerlog_inspect;

GRANT SELECT,INSERT,UPDATE ON TABLE public.receipt_horizon TO offerlog_janitor;
GRANT SELECT ON TABLE public.receipt_horizon TO offerlog_inspector;

GRANT SELECT ON TABLE audit_v1.receipt_horizon TO offerlog_inspect;

GRANT SELECT,INSERT,UPDATE ON TABLE public.recovery TO offerlog_ingest;
GRANT SELECT,INSERT,UPDATE ON TABLE public.recovery TO offerlog_relay;
GRANT SELECT,INSERT,UPDATE ON TABLE public.recovery TO offerlog_project;
GRANT SELECT ON TABLE public.recovery TO offerlog_inspector;

GRANT SELECT ON TABLE audit_v1.recovery TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.relay TO offerlog_inspect;

GRANT SELECT ON TABLE public.replay TO offerlog_audit;
GRANT SELECT ON TABLE public.replay TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.replay TO offerlog_ingest;

GRANT SELECT ON TABLE audit_v1.replay TO offerlog_inspect;

GRANT SELECT ON TABLE public.replay_page TO offerlog_audit;
GRANT SELECT ON TABLE public.replay_page TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.replay_page TO offerlog_ingest;

GRANT SELECT ON TABLE audit_v1.replay_page TO offerlog_inspect;

GRANT SELECT ON TABLE public.replay_run TO offerlog_audit;
GRANT SELECT ON TABLE public.replay_run TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.replay_run TO offerlog_ingest;

GRANT SELECT ON TABLE audit_v1.replay_run TO offerlog_inspect;

GRANT SELECT ON TABLE public.run TO offerlog_audit;
GRANT SELECT ON TABLE public.run TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.run TO offerlog_ingest;
GRANT SELECT,DELETE ON TABLE public.run TO offerlog_janitor;

GRANT UPDATE(recorded_at) ON TABLE public.run TO offerlog_janitor;

GRANT SELECT ON TABLE public.run_page TO offerlog_audit;
GRANT SELECT ON TABLE public.run_page TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.run_page TO offerlog_ingest;
GRANT SELECT,DELETE ON TABLE public.run_page TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.run TO offerlog_inspect;

GRANT SELECT ON TABLE public.run_event TO offerlog_audit;
GRANT SELECT ON TABLE public.run_event TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.run_event TO offerlog_ingest;
GRANT SELECT,DELETE ON TABLE public.run_event TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.run_event TO offerlog_inspect;

GRANT SELECT ON TABLE public.tenant_key TO offerlog_audit;
GRANT SELECT ON TABLE public.tenant_key TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.tenant_key TO offerlog_ingest;
GRANT SELECT ON TABLE public.tenant_key TO offerlog_janitor;

GRANT UPDATE(wrapped) ON TABLE public.tenant_key TO offerlog_janitor;

GRANT SELECT ON TABLE audit_v1.tenant_key TO offerlog_inspect;

GRANT SELECT,INSERT ON TABLE public.tick TO offerlog_ingest;
GRANT SELECT ON TABLE public.tick TO offerlog_project;
GRANT SELECT ON TABLE public.tick TO offerlog_read;
GRANT SELECT ON TABLE public.tick TO offerlog_audit;
GRANT SELECT ON TABLE public.tick TO offerlog_inspector;

GRANT SELECT ON TABLE audit_v1.tick TO offerlog_inspect;

GRANT SELECT ON TABLE audit_v1.token TO offerlog_inspect;

GRANT SELECT ON TABLE public.delivery_reading TO offerlog_ingest;
GRANT SELECT ON TABLE public.delivery_reading TO offerlog_project;
GRANT SELECT ON TABLE public.delivery_reading TO offerlog_audit;

GRANT SELECT ON TABLE public.feed_route TO offerlog_read;
GRANT SELECT ON TABLE public.feed_route TO offerlog_audit;
GRANT SELECT ON TABLE public.feed_route TO offerlog_inspector;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.feed_route TO offerlog_ingest;

GRANT SELECT,INSERT,UPDATE ON TABLE public.janitor_task TO offerlog_janitor;
GRANT SELECT ON TABLE public.janitor_task TO offerlog_inspector;

GRANT SELECT ON TABLE public.outbox_0 TO offerlog_inspector;
GRANT SELECT,TRUNCATE ON TABLE public.outbox_0 TO offerlog_janitor;

GRANT SELECT ON TABLE public.outbox_1 TO offerlog_inspector;
GRANT SELECT,TRUNCATE ON TABLE public.outbox_1 TO offerlog_janitor;

GRANT SELECT ON TABLE public.outbox_2 TO offerlog_inspector;
GRANT SELECT,TRUNCATE ON TABLE public.outbox_2 TO offerlog_janitor;

GRANT SELECT ON TABLE public.outbox_ring TO offerlog_ingest;
GRANT SELECT ON TABLE public.outbox_ring TO offerlog_project;
GRANT SELECT ON TABLE public.outbox_ring TO offerlog_inspector;
GRANT SELECT,UPDATE ON TABLE public.outbox_ring TO offerlog_janitor;

GRANT SELECT ON TABLE public.readable_generation TO offerlog_read;
GRANT SELECT ON TABLE public.readable_generation TO offerlog_audit;

GRANT SELECT,UPDATE ON TABLE public.registry TO offerlog_ingest;
GRANT SELECT ON TABLE public.registry TO offerlog_relay;
GRANT SELECT ON TABLE public.registry TO offerlog_project;
GRANT SELECT ON TABLE public.registry TO offerlog_inspector;
GRANT SELECT ON TABLE public.registry TO offerlog_read;
GRANT SELECT ON TABLE public.registry TO offerlog_audit;

GRANT SELECT ON TABLE public.snapshot_account TO offerlog_audit;
GRANT SELECT ON TABLE public.snapshot_account TO offerlog_inspector;
GRANT SELECT,INSERT,UPDATE ON TABLE public.snapshot_account TO offerlog_ingest;

GRANT SELECT ON TABLE public.snapshot_record TO offerlog_audit;
GRANT SELECT ON TABLE public.snapshot_record TO offerlog_inspector;
GRANT SELECT,INSERT ON TABLE public.snapshot_record TO offerlog_ingest;

GRANT SELECT ON TABLE public.tenant_manifest TO offerlog_read;
GRANT SELECT ON TABLE public.tenant_manifest TO offerlog_audit;

GRANT SELECT,UPDATE ON TABLE public.tick_head TO offerlog_ingest;
