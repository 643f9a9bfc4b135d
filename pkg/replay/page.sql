-- Note that command $4 has sent page $3 of replay ($1, $2): the numbers $6 to $7 of lane $5 (null: none).
INSERT INTO replay_page (tenant, replay, page, command, lane, first_seq, last_seq, recorded_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);
