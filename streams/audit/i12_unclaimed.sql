-- Offers of the active generation of which history holds nothing.
SELECT 'the view shows an offer that nothing claims' AS what, c.tenant, c.tenant || '/' || c.account || '/' || c.record AS offer,
       c.winner::text AS observation
  FROM audit_v1.current_offer AS c
  JOIN audit_v1.generation AS g ON g.id = c.generation
 WHERE g.active
   AND NOT EXISTS (SELECT FROM audit_v1.observation AS o WHERE (o.tenant, o.offer) = (c.tenant, c.offer))
 ORDER BY c.tenant, c.offer;
