SELECT d.tenant, d.subject, d.n, d.kind, d.lane, d.seq, d.verdict, d.standing, d.offer, coalesce(d.account, '') AS account, d.as_of,
       coalesce(d.feed, '') AS feed, d.moment, d.collected, d.item_was, d.item, coalesce(d.reason, '') AS reason, coalesce(d.actor, '') AS actor, d.command, d.recorded_at,
       d.delivery, d.mapping_version
  FROM decision AS d
 WHERE d.tenant = current_tenant()
   AND d.subject = ANY ($1::uuid[])
 ORDER BY d.subject, d.n;
