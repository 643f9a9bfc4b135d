-- Of the offers ($3, $4) the claims that are there as far as the numbers ($1, $2) reach: for each offer how many, and a digest over
-- them that no order of theirs and no number of a lane is part of.
SELECT t.tenant, count(*),
       sha256(convert_to(string_agg(concat_ws(' ', c.observation, encode(c.content, 'hex'), c.delivery, c.row), ',' ORDER BY c.observation, c.delivery, c.row), 'UTF8'))
  FROM unnest($3::text[], $4::uuid[]) AS t (tenant, offer)
 CROSS JOIN LATERAL (SELECT o.id AS observation, o.content, o.delivery, o.row
                       FROM observation AS o
                      WHERE (o.tenant, o.offer) = (t.tenant, t.offer)
                        AND o.seq <= ($2::bigint[])[array_position($1::int[], o.lane)]
                      UNION ALL
                     SELECT s.observation, NULL, s.delivery, s.row
                       FROM sighting AS s
                      WHERE (s.tenant, s.offer) = (t.tenant, t.offer)
                        AND s.seq <= ($2::bigint[])[array_position($1::int[], s.lane)]) AS c
 GROUP BY t.tenant, t.offer;
