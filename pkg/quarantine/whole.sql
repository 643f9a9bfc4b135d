-- Which corrections ($1, $2) were accepted, and correct the delivery as a whole.
SELECT r.tenant, r.delivery
  FROM unnest($1::text[], $2::uuid[]) AS k (tenant, delivery)
  JOIN receipt AS r ON (r.tenant, r.delivery) = (k.tenant, k.delivery)
  JOIN replay AS p ON (p.tenant, p.lane, p."offset") = (r.tenant, r.lane, r."offset")
 WHERE p.row = 0;
