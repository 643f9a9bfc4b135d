-- Note page $3 of replay ($1, $2): the numbers $6 to $7 of lane $5 (null: none), as far as place ($8, $9, $10). It was the last where $11
-- is true; the next one is due at $12.
WITH page AS (
    INSERT INTO replay_page (tenant, replay, page, command, lane, first_seq, last_seq, recorded_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $13))
UPDATE replay_run AS r
   SET pages = $3, lane = $8, "offset" = $9, item = $10, sent = r.sent + coalesce($7::bigint - $6::bigint + 1, 0), due = $12,
       state = CASE WHEN $11 THEN 'sent' ELSE r.state END
 WHERE (r.tenant, r.id) = ($1, $2);
