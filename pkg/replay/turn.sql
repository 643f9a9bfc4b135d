-- Move replay ($1, $2) over page $3, which sends $4 deliveries, to place ($5, $6, $7). It was the last where $8 is true. The next one is
-- due when these have had their time from $9 on, or from now where the clock of a lane is ahead.
UPDATE replay_run AS r
   SET pages = $3, lane = $5, "offset" = $6, item = $7, sent = r.sent + $4::bigint,
       due = least($9, clock_timestamp()) + make_interval(secs => $4::bigint / r.rate::float8),
       state = CASE WHEN $8 THEN 'sent' ELSE r.state END
 WHERE (r.tenant, r.id) = ($1, $2);
