-- What is published of each offer now, and that it was. Revisions rise: what does not is not written.
WITH risen AS (
    INSERT INTO publication AS p (tenant, offer, revision, digest)
    SELECT r.tenant, r.offer, r.revision, r.digest
      FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bytea[]) AS r (tenant, offer, revision, digest)
        ON CONFLICT (tenant, offer) DO UPDATE SET revision = excluded.revision, digest = excluded.digest
     WHERE excluded.revision > p.revision
    RETURNING p.tenant, p.offer, p.revision)
INSERT INTO offer_change (tenant, offer, revision, strong, ord, observation, flags, item, recorded_at)
SELECT r.tenant, r.offer, r.revision, c.strong, c.ord, c.observation, string_to_array(c.flags, ','),
       string_to_array(nullif(c.item, ''), chr(31)), $9
  FROM unnest($1::text[], $2::uuid[], $5::bool[], $6::bigint[], $7::uuid[], $8::text[], $10::text[])
         AS c (tenant, offer, strong, ord, observation, flags, item)
  JOIN risen AS r ON (r.tenant, r.offer) = (c.tenant, c.offer);
