-- The newest complete snapshot of account ($1, $2) that counts, apart from the runs $3.
SELECT d.subject, d.as_of, d.feed
  FROM decision AS d
 WHERE (d.tenant, d.account) = ($1, $2)
   AND d.as_of IS NOT NULL
   AND d.subject <> ALL ($3::uuid[])
   AND NOT EXISTS (SELECT
                     FROM decision AS later
                    WHERE (later.tenant, later.subject) = (d.tenant, d.subject)
                      AND later.n > d.n)
 ORDER BY d.as_of DESC, d.subject DESC
 LIMIT 1;
