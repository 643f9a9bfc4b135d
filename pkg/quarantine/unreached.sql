-- The open entries of which the data could not be fetched and that are due for another try at $1: each try waits twice as long as the
-- one before, the first for a minute, and there are $2. At most $3, the oldest first.
SELECT q.tenant, q.id, t.n
  FROM quarantine AS q
 CROSS JOIN LATERAL (SELECT count(*)::int AS n, max(d.recorded_at) AS last
                       FROM quarantine_decision AS d
                      WHERE (d.tenant, d.entry) = (q.tenant, q.id)
                        AND d.verdict = 'redriven') AS t
 WHERE q.state = 'open'
   AND q.reason = 'dataref_unavailable'
   AND q.archived
   AND q.delivery IS NOT NULL
   AND t.n < $2::int
   AND coalesce(t.last, q.recorded_at) <= $1::timestamptz - make_interval(mins => 1 << t.n)
 ORDER BY q.recorded_at, q.id
 LIMIT $3::int;
