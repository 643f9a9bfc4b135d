-- Of each offer nothing is published now, and that was told. Revisions rise: what does not is not written.
INSERT INTO offer_change (tenant, offer, revision, flags, recorded_at)
SELECT r.tenant, r.offer, r.revision, '{}', $4
  FROM unnest($1::text[], $2::uuid[], $3::bigint[]) AS r (tenant, offer, revision)
 WHERE unpublish(r.tenant, r.offer, r.revision);
