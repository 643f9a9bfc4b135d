-- A page whose receipt has expired may come again: it is there.
INSERT INTO run_page (tenant, run, page, pages, delivery, observed_ns, rejected, held, recorded_at)
SELECT p.tenant, p.run, p.page, nullif(p.pages, 0), p.delivery, p.observed_ns, p.rejected, p.held, p.recorded_at
  FROM unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $5::uuid[], $6::bigint[], $7::int[], $8::bool[], $9::timestamptz[])
       AS p (tenant, run, page, pages, delivery, observed_ns, rejected, held, recorded_at)
    ON CONFLICT DO NOTHING;
