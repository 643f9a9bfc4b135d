SELECT r.tenant, r.id, r.selection, r.lanes, r.froms, r.tos, r.rate, r.state, r.pages, r.lane, r."offset", r.item, r.sent, r.answered, r.again,
       r.actor, r.reason, r.recorded_at
  FROM replay_run AS r
 WHERE r.tenant = current_tenant()
   AND ($1::uuid IS NULL OR r.id = $1)
 ORDER BY r.recorded_at DESC, r.id;
