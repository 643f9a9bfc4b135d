-- The contents of those observations (tenants $1, offers $2, ids $3) that exist.
SELECT o.id, o.row_hash
  FROM audit_v1.observation AS o
  JOIN unnest($1::text[], $2::uuid[], $3::uuid[]) AS k (tenant, offer, id) ON (o.tenant, o.offer, o.id) = (k.tenant, k.offer, k.id);
