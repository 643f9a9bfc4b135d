SELECT coalesce(max(d.release), 0)
  FROM quarantine_decision AS d
 WHERE (d.tenant, d.delivery) = ($1, $2)
   AND d.release > 0;
