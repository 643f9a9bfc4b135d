SELECT r.tenant, r.delivery, r.canonicalization, r.fingerprint, r.lane, r."offset", r.item
  FROM receipt AS r
  JOIN unnest($1::text[], $2::uuid[]) AS k (tenant, delivery) ON (r.tenant, r.delivery) = (k.tenant, k.delivery);
