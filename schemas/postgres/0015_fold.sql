-- +goose Up
-- Which claims count, and what an offer shows by them, stands here and nowhere else: the projector, reads of the past and the
-- build of a generation all ask these two functions. PostgreSQL puts their text into the asking statement, so the rights are
-- the caller's, and what a caller does not use is not computed.
--
-- The past is a vector: of each lane in lanes the number in upto that it has reached. A claim or decision beyond it, or of a
-- lane that it does not name, is not there. Of a subject's decisions that are there the one with the greatest n says how the
-- subject's claims count: 0 not, 1 as a part, 2 fully.
--
-- Time passes by decisions too: the latest moment of a tenant that is decided to have come is its now, and for a claim when it
-- was recorded, if that is later. Asked about a time that has passed or is to come (as_of), that time is the now of all.

-- +goose StatementBegin
-- passed says whether a time, in nanoseconds since 1970 UTC, has come for a claim of the tenant that was recorded at another.
CREATE FUNCTION passed(ns bigint, of_tenant text, recorded_at timestamptz, lanes int[], upto bigint[], as_of bigint) RETURNS bool
    LANGUAGE sql STABLE AS $$
    SELECT ns <= coalesce(as_of, greatest((extract(epoch FROM recorded_at) * 1000000000)::bigint,
                                          (SELECT d.moment
                                             FROM decision AS d
                                            WHERE d.tenant = of_tenant
                                              AND d.moment IS NOT NULL
                                              AND d.seq <= upto[array_position(lanes, d.lane)]
                                            ORDER BY d.moment DESC
                                            LIMIT 1)))
$$;
-- +goose StatementEnd
ALTER FUNCTION passed OWNER TO offerlog_owner;

-- +goose StatementBegin
-- void says whether a mapping version of a feed has been taken out of force: what was read under it does not count.
CREATE FUNCTION void(of_tenant text, of_feed text, version int, lanes int[], upto bigint[]) RETURNS bool
    LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT d.standing = 0
                       FROM decision AS d
                      WHERE (d.tenant, d.feed, d.mapping_version) = (of_tenant, of_feed, version)
                        AND d.kind = 'mapping'
                        AND d.seq <= upto[array_position(lanes, d.lane)]
                      ORDER BY d.n DESC
                      LIMIT 1), false)
$$;
-- +goose StatementEnd
ALTER FUNCTION void OWNER TO offerlog_owner;

-- +goose StatementBegin
-- overtaken says why a deletion that a snapshot, the run, implies of an offer is out: a newer snapshot of its account counts, or the
-- snapshot has the record after all, as its pages are read by now. Few observations are such: apart, it costs the others nothing.
CREATE FUNCTION overtaken(of_tenant text, of_offer uuid, of_account text, of_run uuid, taken bigint, lanes int[], upto bigint[]) RETURNS text
    LANGUAGE sql STABLE AS $$
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
-- +goose StatementEnd
ALTER FUNCTION overtaken OWNER TO offerlog_owner;

-- +goose StatementBegin
-- candidates are the observations of an offer that somebody has claimed by then: how the best of the claims counts, from when on
-- one that counts was true, and, where none does, why not. Where no decision of a kind was ever made, nothing is looked up
-- for it.
CREATE FUNCTION candidates(of_tenant text, of_offer uuid, lanes int[], upto bigint[], as_of bigint)
    RETURNS TABLE (strong bool, ord bigint, mapping_version int, content bytea, observation uuid, account text, record text,
                   revision_key text, deleted bool, standing int, reason text, since_ns bigint, item text[])
    LANGUAGE sql STABLE AS $$
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
-- +goose StatementEnd
ALTER FUNCTION candidates OWNER TO offerlog_owner;

-- +goose StatementBegin
-- fold is what an offer shows: the candidate of the highest rank that counts and, where as_of is given, was true by then; no row
-- where none is. The newest order of an offer is the end of its range of the primary key, so the look ends behind the first
-- candidates that count, however long the history. The rank is the one that offer.Rank compares.
CREATE FUNCTION fold(of_tenant text, of_offer uuid, lanes int[], upto bigint[], as_of bigint)
    RETURNS TABLE (strong bool, ord bigint, mapping_version int, content bytea, observation uuid, account text, record text,
                   deleted bool, flags text[], item text[])
    LANGUAGE sql STABLE AS $$
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
-- +goose StatementEnd
ALTER FUNCTION fold OWNER TO offerlog_owner;
