-- Deliveries that were accepted more than once.
SELECT 'a delivery is accepted more than once' AS what, o.tenant, o.delivery::text, min(o.lane) AS lane, min(o."offset") AS "offset",
       format('%s acceptances', count(*)) AS detail
  FROM audit_v1.outcome AS o
 WHERE o.outcome = 'accepted'
   AND o.delivery IS NOT NULL
 GROUP BY o.tenant, o.delivery
HAVING count(*) > 1
 ORDER BY o.tenant, o.delivery;
