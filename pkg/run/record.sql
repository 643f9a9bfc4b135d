WITH page AS (
    SELECT p.tenant, p.feed, p.run, p.page, p.pages, p.delivery, p.recorded_at
      FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::uuid[], $7::timestamptz[])
           AS p (tenant, feed, run, page, pages, delivery, recorded_at)),
begun AS (
    INSERT INTO run (tenant, feed, run, recorded_at)
    SELECT p.tenant, p.feed, p.run, min(p.recorded_at)
      FROM page AS p
     GROUP BY p.tenant, p.feed, p.run
     ORDER BY p.tenant, p.feed, p.run
        ON CONFLICT (tenant, feed, run) DO NOTHING)
INSERT INTO run_page (tenant, feed, run, page, pages, delivery)
SELECT p.tenant, p.feed, p.run, p.page, nullif(p.pages, 0), p.delivery
  FROM page AS p
    ON CONFLICT (tenant, feed, run, page, delivery) DO NOTHING;
