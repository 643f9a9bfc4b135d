-- Records whose outcomes are not one an item: numbered from 0 without a gap, or -1 alone for an empty batch, which is accepted.
SELECT 'the outcomes of a record are not one for each item' AS what, min(o.tenant) AS tenant, min(o.lane) AS lane, o."offset",
       format('%s outcomes, of items %s to %s', count(*), min(o.item), max(o.item)) AS detail
  FROM audit_v1.outcome AS o
 GROUP BY o.topic_id, o.partition, o."offset"
HAVING NOT (min(o.item) = -1 AND count(*) = 1 AND min(o.outcome) = 'accepted'
            OR min(o.item) = 0 AND max(o.item) = count(*) - 1 AND count(DISTINCT o.item) = count(*))
 ORDER BY 3, 4;
