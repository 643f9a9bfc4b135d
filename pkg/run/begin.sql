-- Runs come sorted by key, so that two workers wait for one another in one order.
INSERT INTO run (tenant, id, feed, name, recorded_at)
SELECT r.tenant, r.id, r.feed, r.name, r.recorded_at
  FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) AS r (tenant, id, feed, name, recorded_at)
    ON CONFLICT (tenant, id) DO NOTHING;
