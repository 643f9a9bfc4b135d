INSERT INTO receipt (tenant, delivery, canonicalization, fingerprint, lane, "offset", item)
SELECT r.tenant, r.delivery, r.canonicalization, r.fingerprint, r.lane, r."offset", r.item
  FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bytea[], $5::int[], $6::bigint[], $7::int[])
       AS r (tenant, delivery, canonicalization, fingerprint, lane, "offset", item)
    ON CONFLICT (tenant, delivery) DO NOTHING
RETURNING tenant, delivery;
