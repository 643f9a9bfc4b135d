UPDATE replay_run AS r
   SET answered = r.answered + a.n
  FROM unnest($1::text[], $2::uuid[], $3::bigint[]) AS a (tenant, id, n)
 WHERE (r.tenant, r.id) = (a.tenant, a.id);
