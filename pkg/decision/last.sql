-- The standings that the last decisions on subjects give their claims, of those on which any was made.
SELECT k.subject, d.standing
  FROM unnest($2::uuid[]) AS k (subject)
 CROSS JOIN LATERAL (SELECT d.standing
                       FROM decision AS d
                      WHERE (d.tenant, d.subject) = ($1, k.subject)
                      ORDER BY d.n DESC
                      LIMIT 1) AS d;
