-- What an operator did. Whoever does holds all checkpoints or has just made a generation, so no other takes the number.
INSERT INTO generation_decision (n, action, generation, before, actor, reason)
SELECT coalesce((SELECT max(d.n) FROM generation_decision AS d), 0) + 1, $1, $2, a.active, $3, $4
  FROM generation_pointer AS a;
