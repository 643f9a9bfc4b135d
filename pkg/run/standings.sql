-- Of each run: how many pages it has, how many of them are accepted, and what was decided so far. The caller holds the rows of
-- the runs, in a statement before this one.
SELECT r.tenant, r.id, r.feed, r.name, coalesce(n.pages, 0), coalesce(p.seen, 0), coalesce(p.rejected, 0), p.observed_ns,
       coalesce(d.verdict, ''), coalesce(d.standing, 0::smallint),
       EXISTS (SELECT FROM decision AS x WHERE (x.tenant, x.subject) = (r.tenant, r.id) AND x.verdict = 'released')
  FROM run AS r
 CROSS JOIN LATERAL (SELECT greatest((SELECT max(p.pages) FROM run_page AS p WHERE (p.tenant, p.run) = (r.tenant, r.id)),
                                     (SELECT max(e.pages)
                                        FROM run_event AS e
                                       WHERE (e.tenant, e.run) = (r.tenant, r.id)
                                         AND e.kind = 'completed')) AS pages) AS n
 CROSS JOIN LATERAL (SELECT count(DISTINCT p.page) FILTER (WHERE p.page <= n.pages) AS seen,
                            sum(p.rejected) AS rejected,
                            -- A page that does not say when it was taken leaves the run without a time.
                            CASE WHEN bool_and(p.observed_ns IS NOT NULL) THEN min(p.observed_ns) END AS observed_ns
                       FROM run_page AS p
                      WHERE (p.tenant, p.run) = (r.tenant, r.id)) AS p
  LEFT JOIN LATERAL (SELECT d.verdict, d.standing
                       FROM decision AS d
                      WHERE (d.tenant, d.subject) = (r.tenant, r.id)
                      ORDER BY d.n DESC
                      LIMIT 1) AS d ON true
 WHERE (r.tenant, r.id) IN (SELECT k.tenant, k.id FROM unnest($1::text[], $2::uuid[]) AS k (tenant, id))
 ORDER BY r.tenant, r.id;
