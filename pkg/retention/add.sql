INSERT INTO pruning (tenant, id, kind, feed, before, removed, actor, reason, recorded_at)
VALUES ($1, $2, $3, nullif($4, ''), $5, $6, nullif($7, ''), $8, $9);
