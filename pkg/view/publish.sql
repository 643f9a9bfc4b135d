INSERT INTO publication AS p (tenant, offer, revision, digest)
SELECT r.tenant, r.offer, r.revision, r.digest
  FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bytea[]) AS r (tenant, offer, revision, digest)
    ON CONFLICT (tenant, offer) DO UPDATE SET revision = excluded.revision, digest = excluded.digest
 WHERE excluded.revision > p.revision;
