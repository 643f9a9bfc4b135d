INSERT INTO replay_run (tenant, id, selection, lanes, froms, tos, rate, due, actor, reason, recorded_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, least($8, clock_timestamp()), $9, $10, $8);
