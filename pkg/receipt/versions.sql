-- The mapping versions that deliveries ($1, $2) were accepted under; no row where one was accepted under none, or has no receipt any more.
SELECT r.tenant, r.delivery, o.mapping_version
  FROM unnest($1::text[], $2::uuid[]) AS k (tenant, delivery)
  JOIN receipt AS r ON (r.tenant, r.delivery) = (k.tenant, k.delivery)
  JOIN outcome AS o ON (o.lane, o."offset", o.item) = (r.lane, r."offset", r.item)
 WHERE o.mapping_version IS NOT NULL;
