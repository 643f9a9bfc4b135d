-- +goose Up
-- collected says of a deletion that an offer shows, by the observation that it is, whether it is older than its feed remembers
-- deletions: some horizon that the vector covers (see candidates) lies behind it. History keeps it, so that it still wins.
CREATE FUNCTION collected(of_tenant text, of_offer uuid, strong bool, ord bigint, observation uuid, lanes int[], upto bigint[]) RETURNS bool
    LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT
                     FROM observation AS o
                     JOIN decision AS d ON (d.tenant, d.feed) = (o.tenant, o.feed)
                    WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = ($1, $2, $3, $4, $5)
                      AND d.kind = 'horizon'
                      AND d.collected > o.recorded_at
                      AND d.seq <= upto[array_position(lanes, d.lane)])
$$;
ALTER FUNCTION collected OWNER TO offerlog_owner;

-- forget removes the row of an offer of which a deletion is shown no longer, and says whether there was one. The projector has no
-- right to remove anything: this runs with that of a role that nobody logs in as, and removes nothing else.
GRANT CREATE ON SCHEMA public TO offerlog_inspector;
-- +goose StatementBegin
CREATE FUNCTION forget(of_tenant text, of_generation int, of_offer uuid, of_strong bool, of_ord bigint, deletion uuid) RETURNS bool
    LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
    WITH gone AS (
        DELETE FROM public.current_offer AS c
         WHERE (c.tenant, c.generation, c.offer) = (of_tenant, of_generation, of_offer)
           AND EXISTS (SELECT
                         FROM public.observation AS o
                         JOIN public.decision AS d ON (d.tenant, d.feed) = (o.tenant, o.feed)
                        WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (of_tenant, of_offer, of_strong, of_ord, deletion)
                          AND o.deleted
                          AND d.kind = 'horizon'
                          AND d.collected > o.recorded_at)
        RETURNING true)
    SELECT EXISTS (SELECT FROM gone);
END;

-- unpublish forgets under which revision an offer was published that the active generation does not show, if a higher one tells
-- that, and says whether it was.
CREATE FUNCTION unpublish(of_tenant text, of_offer uuid, of_revision bigint) RETURNS bool
    LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
    WITH gone AS (
        DELETE FROM public.publication AS p
         WHERE (p.tenant, p.offer) = (of_tenant, of_offer)
           AND p.revision < of_revision
           AND NOT EXISTS (SELECT
                             FROM public.generation_pointer AS g
                             JOIN public.current_offer AS c ON (c.tenant, c.generation, c.offer) = (of_tenant, g.active, of_offer))
        RETURNING true)
    SELECT EXISTS (SELECT FROM gone);
END;
-- +goose StatementEnd
ALTER FUNCTION forget OWNER TO offerlog_inspector;
ALTER FUNCTION unpublish OWNER TO offerlog_inspector;
REVOKE CREATE ON SCHEMA public FROM offerlog_inspector;
REVOKE EXECUTE ON FUNCTION forget, unpublish FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget, unpublish TO offerlog_project;
GRANT DELETE ON current_offer, publication TO offerlog_inspector;

-- What the janitor must see to know which deletions are old.
CREATE POLICY worker_offerlog_janitor ON current_offer FOR SELECT TO offerlog_janitor USING (true);
GRANT SELECT (tenant, generation, offer, strong, ord, observation, deleted) ON current_offer TO offerlog_janitor;
GRANT SELECT (tenant, offer, strong, ord, id, feed, recorded_at) ON observation TO offerlog_janitor;
GRANT SELECT ON generation_pointer TO offerlog_janitor;
