SELECT d.tenant, d.subject, max(d.n)
  FROM decision AS d
 WHERE (d.tenant, d.subject) IN (SELECT s.tenant, s.subject FROM unnest($1::text[], $2::uuid[]) AS s (tenant, subject))
 GROUP BY d.tenant, d.subject;
