UPDATE janitor_task AS t
   SET due_at = $2
 WHERE t.task = $1;
