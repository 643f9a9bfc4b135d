-- The places of the attempts of one delivery of the transaction's tenant: the accepted one through its receipt, the others
-- through their index.
SELECT r.lane, r."offset", r.item
  FROM receipt AS r
 WHERE (r.tenant, r.delivery) = (current_tenant(), $1)
 UNION ALL
SELECT o.lane, o."offset", o.item
  FROM outcome AS o
 WHERE (o.tenant, o.delivery) = (current_tenant(), $1)
   AND o.outcome <> 'accepted';
