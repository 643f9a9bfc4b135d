UPDATE projection AS p
   SET next = $3, lanes = $4, applied = $5
 WHERE (p.generation, p.partition) = ($1, $2);
