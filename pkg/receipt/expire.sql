-- Go through the next $3 outcomes of lane $1 from where the last step for $2 nanoseconds ended, and remove the receipts of the
-- feeds $6 of tenants $5 that were recorded before $4. Numbers and times of a lane rise together, so the first outcome that is
-- younger ends the step. It returns how many receipts are gone, and whether the step moved on.
WITH done AS (
    SELECT coalesce((SELECT h.expired FROM receipt_horizon AS h WHERE (h.lane, h.keep_ns) = ($1, $2)), l.start) AS upto
      FROM lane AS l
     WHERE l.id = $1
), ahead AS (
    SELECT o."offset", o.item, o.tenant, o.delivery, o.feed, o.outcome, o.recorded_at < $4 AS old
      FROM done AS d
     CROSS JOIN LATERAL (SELECT o."offset", o.item, o.tenant, o.delivery, o.feed, o.outcome, o.recorded_at
                           FROM outcome AS o
                          WHERE o.lane = $1
                            AND o."offset" >= d.upto
                          ORDER BY o."offset"
                          FETCH FIRST ($3::int) ROWS WITH TIES) AS o
), gone AS (
    DELETE FROM receipt AS r
     USING ahead AS a
      JOIN unnest($5::text[], $6::text[]) AS f (tenant, feed) ON (f.tenant, f.feed) = (a.tenant, a.feed)
     WHERE a.old
       AND a.outcome = 'accepted'
       AND (r.tenant, r.delivery) = (a.tenant, a.delivery)
       AND (r.lane, r."offset", r.item) = ($1, a."offset", a.item)
    RETURNING r.delivery
), moved AS (
    INSERT INTO receipt_horizon AS h (lane, keep_ns, expired)
    SELECT $1, $2, max(a."offset") + 1
      FROM ahead AS a
     WHERE a.old
    HAVING count(*) > 0
        ON CONFLICT (lane, keep_ns) DO UPDATE SET expired = excluded.expired
    RETURNING h.lane
)
SELECT (SELECT count(*) FROM gone), EXISTS (SELECT FROM moved);
