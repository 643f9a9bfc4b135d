-- Outcomes whose payload is said to be archived, and no object holds it.
SELECT 'an archived payload is in no object' AS what, o.tenant, coalesce(o.delivery::text, '') AS delivery, o.lane, o."offset", o.item
  FROM audit_v1.outcome AS o
 WHERE o.archived
   AND o.outcome IN ('accepted', 'quarantined')
   AND NOT EXISTS (SELECT
                     FROM audit_v1.artifact AS a
                    WHERE (a.tenant, a.topic_id, a.partition, a."offset", a.item) = (o.tenant, o.topic_id, o.partition, o."offset", o.item))
 ORDER BY o.lane, o."offset", o.item;
