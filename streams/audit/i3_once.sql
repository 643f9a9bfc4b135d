-- Deliveries that were accepted more than once, although their first receipt has not expired.
SELECT 'a delivery is accepted more than once' AS what, o.tenant, o.delivery::text, min(o.lane) AS lane, min(o."offset") AS "offset",
       format('%s acceptances', count(*)) AS detail
  FROM audit_v1.outcome AS o
  LEFT JOIN audit_v1.receipt_horizon AS h ON h.lane = o.lane
 WHERE o.outcome = 'accepted'
   AND o.delivery IS NOT NULL
   AND (o.feed IS NULL OR o."offset" >= coalesce(h.expired, o."offset"))
 GROUP BY o.tenant, o.delivery
HAVING count(*) > 1
 ORDER BY o.tenant, o.delivery;
