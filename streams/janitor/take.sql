-- Take task $1 for this transaction if it is due at $2 and nobody is at it.
SELECT t.task
  FROM janitor_task AS t
 WHERE t.task = $1
   AND t.due_at <= $2
   FOR UPDATE SKIP LOCKED;
