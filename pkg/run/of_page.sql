SELECT r.id, r.feed, r.name, r.recorded_at
  FROM run_page AS p
  JOIN run AS r ON (r.tenant, r.id) = (p.tenant, p.run)
 WHERE (p.tenant, p.delivery) = ($1, $2);
