-- Put replay ($1, $2) into state $3. Pages that were asked for before a pause may have been answered during it, with nothing.
UPDATE replay_run AS r
   SET state = $3, resumed = r.resumed + ($3 = 'running')::int
 WHERE (r.tenant, r.id) = ($1, $2);
