-- Whether every page of run $2 of tenant $1, which is of feed $3, is read under a mapping version that is in force, and the newest of
-- these rejects no row of it: by what is there, and by what the transaction is about to record, readings of deliveries under versions that
-- reject so many rows ($4, $5, $6) and decisions on mapping versions ($7, $8, $9). Of a page whose receipt has expired nothing else is
-- known. Where nothing was ever read under another version, a snapshot is as it was accepted.
WITH changed AS (
    SELECT EXISTS (SELECT FROM decision AS d WHERE d.tenant = $1 AND d.kind = 'reading')
        OR EXISTS (SELECT FROM decision AS d WHERE d.tenant = $1 AND d.kind = 'mapping')
        OR cardinality($4::uuid[]) > 0
        OR cardinality($7::text[]) > 0 AS is),
void AS MATERIALIZED (
    SELECT m.version
      FROM (SELECT DISTINCT ON (d.version) d.version, d.standing
              FROM (SELECT d.mapping_version, d.standing, d.n
                      FROM decision AS d
                     WHERE (d.tenant, d.feed) = ($1, $3)
                       AND d.kind = 'mapping'
                     UNION ALL
                    SELECT p.version, p.standing, 2147483647
                      FROM unnest($7::text[], $8::int[], $9::smallint[]) AS p (feed, version, standing)
                     WHERE p.feed = $3) AS d (version, standing, n)
             ORDER BY d.version, d.n DESC) AS m
     WHERE m.standing = 0),
reading AS (
    SELECT p.delivery, o.mapping_version AS version, o.rejected
      FROM run_page AS p
      JOIN receipt AS r ON (r.tenant, r.delivery) = (p.tenant, p.delivery)
      JOIN outcome AS o ON (o.lane, o."offset", o.item) = (r.lane, r."offset", r.item)
     WHERE (p.tenant, p.run) = ($1, $2)
     UNION ALL
    SELECT p.delivery, o.mapping_version, o.rejected
      FROM run_page AS p
      JOIN outcome AS o ON (o.tenant, o.delivery) = (p.tenant, p.delivery) AND o.outcome = 'reread'
     WHERE (p.tenant, p.run) = ($1, $2)
     UNION ALL
    SELECT n.delivery, n.version, n.rejected
      FROM unnest($4::uuid[], $5::int[], $6::int[]) AS n (delivery, version, rejected))
SELECT NOT c.is
    OR NOT EXISTS (SELECT
                     FROM (SELECT p.delivery,
                                  (array_agg(r.rejected ORDER BY r.version DESC) FILTER (WHERE v.version IS NULL))[1] AS rejected
                             FROM run_page AS p
                             JOIN reading AS r ON r.delivery = p.delivery
                             LEFT JOIN void AS v ON v.version = r.version
                            WHERE (p.tenant, p.run) = ($1, $2)
                            GROUP BY p.delivery) AS page
                    WHERE page.rejected IS DISTINCT FROM 0)
  FROM changed AS c;
