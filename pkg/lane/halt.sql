UPDATE lane AS l
   SET halt_reason = $2, halt_from = $3, halt_to = $4, halted_at = clock_timestamp()
 WHERE l.id = $1
   AND l.halt_reason IS NULL;
