UPDATE lane AS l
   SET tries = l.tries + 1
 WHERE l.id = $1
RETURNING l.tries;
