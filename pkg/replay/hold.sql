-- Lock replays ($1, $2) in one order.
SELECT FROM replay_run AS r
 WHERE (r.tenant, r.id) IN (SELECT k.tenant, k.id FROM unnest($1::text[], $2::uuid[]) AS k (tenant, id))
 ORDER BY r.tenant, r.id
   FOR UPDATE;
