-- The runs that deliveries are pages of.
SELECT p.delivery, r.id, r.feed, r.name, r.recorded_at
  FROM run_page AS p
  JOIN run AS r ON (r.tenant, r.id) = (p.tenant, p.run)
 WHERE p.tenant = $1
   AND p.delivery = ANY ($2::uuid[]);
