-- Move replay ($1, $2) over page $3, which sends $4 deliveries, to place ($5, $6, $7). It was the last where $8 is true; the next one is
-- due at $9.
UPDATE replay_run AS r
   SET pages = $3, lane = $5, "offset" = $6, item = $7, sent = r.sent + $4, due = $9,
       state = CASE WHEN $8 THEN 'sent' ELSE r.state END
 WHERE (r.tenant, r.id) = ($1, $2);
