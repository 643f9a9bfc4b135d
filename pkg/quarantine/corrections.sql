-- The numbers of the corrections of deliveries ($1, $2) that somebody has released.
SELECT d.tenant, d.delivery, d.release
  FROM unnest($1::text[], $2::uuid[]) AS k (tenant, delivery)
  JOIN quarantine_decision AS d ON (d.tenant, d.delivery) = (k.tenant, k.delivery) AND d.release > 0;
