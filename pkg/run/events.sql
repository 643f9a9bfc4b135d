-- An event whose receipt has expired may come again: it is there.
INSERT INTO run_event (tenant, run, delivery, kind, at, credential, pages, page, attempt, error, recorded_at)
SELECT e.tenant, e.run, e.delivery, e.kind, e.at, nullif(e.credential, ''), nullif(e.pages, 0), nullif(e.page, 0), nullif(e.attempt, 0),
       nullif(e.error, ''), e.recorded_at
  FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::int[], $10::text[],
              $11::timestamptz[])
       AS e (tenant, run, delivery, kind, at, credential, pages, page, attempt, error, recorded_at)
    ON CONFLICT DO NOTHING;
