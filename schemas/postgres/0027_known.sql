-- +goose Up
-- +goose StatementBegin
-- known is, of each of some offers of the transaction's tenant, what was known within a vector, as of a time (null: whenever): the
-- observation that the fold shows, its flags, the item that a link gives it, and the latest time that one of its claims within
-- the vector was retrieved. Its plan is kept like that of stands.
CREATE FUNCTION known(offers uuid[], lanes int[], upto bigint[], as_of bigint)
    RETURNS TABLE (observation observation_row, flags text[], item text[], retrieved_ns bigint)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
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
-- +goose StatementEnd
ALTER FUNCTION known OWNER TO offerlog_owner;
