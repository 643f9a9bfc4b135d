-- Runs of feed ($1, $2) that nothing needs any more, $4 at most, locked: nothing has come of them since $3, nothing was decided about them
-- since then, and none of their claims waits for a page or a decision. Where $5 is not null, those of them alone.
SELECT r.id, r.recorded_at
  FROM run AS r
  LEFT JOIN LATERAL (SELECT d.verdict, d.recorded_at
                       FROM decision AS d
                      WHERE (d.tenant, d.subject) = (r.tenant, r.id)
                      ORDER BY d.n DESC
                      LIMIT 1) AS d ON true
 WHERE (r.tenant, r.feed) = ($1, $2)
   AND r.recorded_at < $3
   AND ($5::uuid[] IS NULL OR r.id = ANY ($5))
   AND coalesce(d.recorded_at < $3, true)
   AND NOT EXISTS (SELECT FROM run_event AS e WHERE (e.tenant, e.run) = (r.tenant, r.id) AND e.recorded_at >= $3)
   AND NOT EXISTS (SELECT
                     FROM run_page AS p
                    WHERE (p.tenant, p.run) = (r.tenant, r.id)
                      AND (p.recorded_at >= $3 OR p.held AND coalesce(d.verdict, 'braked') = 'braked'))
 ORDER BY r.recorded_at, r.id
 LIMIT $4
   FOR UPDATE OF r SKIP LOCKED;
