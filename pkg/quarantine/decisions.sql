SELECT d.n, d.verdict, d.release, d.actor, d.reason, d.command, d.recorded_at
  FROM quarantine_decision AS d
 WHERE (d.tenant, d.entry) = (current_tenant(), $1)
 ORDER BY d.n;
