-- The events $2 < seq <= $3 of a lane, in the order of their numbers: observations, and sightings with the observation
-- that they restate.
SELECT o.*,
       NULL::int AS s_lane, NULL::bigint AS s_seq, NULL::uuid AS s_delivery, NULL::int AS s_row, NULL::bool AS s_weak_identity,
       NULL::bigint AS s_observed_ns, NULL::text AS s_observed_at, NULL::bigint AS s_retrieved_ns, NULL::timestamptz AS s_recorded_at,
       NULL::uuid AS s_run, NULL::bool AS s_held, NULL::bigint AS s_due_ns,
       o.seq AS number
  FROM observation_row AS o
 WHERE o.lane = $1 AND o.seq > $2 AND o.seq <= $3
 UNION ALL
SELECT o.*,
       s.lane, s.seq, s.delivery, s.row, s.weak_identity, s.observed_ns, s.observed_at, s.retrieved_ns, s.recorded_at, s.run, s.held,
       s.due_ns,
       s.seq
  FROM sighting AS s
  JOIN observation_row AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (s.tenant, s.offer, s.strong, s.ord, s.observation)
 WHERE s.lane = $1 AND s.seq > $2 AND s.seq <= $3
 ORDER BY number;
