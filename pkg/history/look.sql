-- For each row about to be claimed: the content of the observation with its very identity, the order of the newest
-- observation of its offer, whether another revision of the same order says something else, and whether its delivery has made
-- a claim of that order before. Each is one probe of the primary key; the claims of an observation are few.
SELECT q.n,
       same.content,
       top.strong,
       top.ord,
       EXISTS (SELECT
                 FROM observation AS o
                WHERE (o.tenant, o.offer, o.strong, o.ord) = (q.tenant, q.offer, q.strong, q.ord)
                  AND o.id <> q.id
                  AND o.revision_key <> q.revision_key
                  AND o.content <> q.content
                  AND o.mapping_version > 0) AS contradicted,
       EXISTS (SELECT
                 FROM observation AS o
                WHERE (o.tenant, o.offer, o.strong, o.ord) = (q.tenant, q.offer, q.strong, q.ord)
                  AND (o.delivery = q.delivery
                       OR EXISTS (SELECT
                                    FROM sighting AS s
                                   WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id)
                                     AND s.delivery = q.delivery))) AS claimed
  FROM unnest($1::int[], $2::text[], $3::uuid[], $4::bool[], $5::bigint[], $6::uuid[], $7::text[], $8::bytea[], $9::uuid[])
       AS q (n, tenant, offer, strong, ord, id, revision_key, content, delivery)
  LEFT JOIN LATERAL (SELECT o.content
                       FROM observation AS o
                      WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (q.tenant, q.offer, q.strong, q.ord, q.id)) AS same ON true
  LEFT JOIN LATERAL (SELECT o.strong, o.ord
                       FROM observation AS o
                      WHERE (o.tenant, o.offer) = (q.tenant, q.offer)
                      ORDER BY o.strong DESC, o.ord DESC, o.id DESC
                      LIMIT 1) AS top ON true;
