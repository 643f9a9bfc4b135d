-- Tasks that nobody has done yet are due.
INSERT INTO janitor_task (task, due_at)
SELECT t.task, '-infinity'
  FROM unnest($1::text[]) AS t (task)
 ORDER BY t.task
    ON CONFLICT DO NOTHING;
