-- What is known of an offer ($1, of the transaction's tenant) within the vector ($2, $3): each observation that somebody has claimed
-- by then, how it counts ($4: as of when; null: whenever) and why not, from when on one of its claims was true, and how often it was restated.
SELECT o.*,
       c.standing, coalesce(c.reason, ''), c.item, c.since_ns,
       (SELECT count(*)
          FROM sighting AS s
         WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id)
           AND s.seq <= ($3::bigint[])[array_position($2::int[], s.lane)])
  FROM candidates(current_tenant(), $1::uuid, $2::int[], $3::bigint[], $4::bigint) AS c
 CROSS JOIN LATERAL (SELECT o.*
                       FROM observation_row AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (current_tenant(), $1::uuid, c.strong, c.ord, c.observation)
                     OFFSET 0) AS o
 ORDER BY c.strong DESC, c.ord DESC, c.mapping_version DESC, c.content DESC, c.observation DESC;
