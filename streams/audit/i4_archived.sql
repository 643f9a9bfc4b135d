-- Outcomes whose payload is said to be archived, and no object holds it. As sets, since asking for each outcome alone opens
-- its object's arrays again and again.
WITH missing AS (
    SELECT o.tenant, o.topic_id, o.partition, o."offset", o.item
      FROM audit_v1.outcome AS o
     WHERE o.archived
       AND o.outcome IN ('accepted', 'quarantined')
    EXCEPT
    SELECT a.tenant, a.topic_id, a.partition, a."offset", a.item
      FROM audit_v1.artifact AS a)
SELECT 'an archived payload is in no object' AS what, o.tenant, coalesce(o.delivery::text, '') AS delivery, o.lane, o."offset", o.item
  FROM missing AS m
  JOIN audit_v1.outcome AS o ON (o.topic_id, o.partition, o."offset", o.item) = (m.topic_id, m.partition, m."offset", m.item)
 ORDER BY o.lane, o."offset", o.item;
