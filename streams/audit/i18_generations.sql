-- Generations that are not as the pointer and the switches say. The first one was active before anybody built one, and needs no
-- manifest.
SELECT 'not one generation that stands is active' AS what, format('%s are', count(*)) AS detail, 0 AS lane, NULL::int AS partition
  FROM audit_v1.generation AS g
 WHERE g.active
   AND g.retired_at IS NULL
HAVING count(*) <> 1
 UNION ALL
SELECT 'the active generation has no manifest', format('generation %s', g.id), 0, NULL
  FROM audit_v1.generation AS g
 WHERE g.active
   AND g.manifest IS NULL
   AND g.id > (SELECT min(f.id) FROM audit_v1.generation AS f)
 UNION ALL
SELECT 'a partition does not publish one generation that stands', format('it publishes %s', count(*) FILTER (WHERE c.publishes)), min(c.lane), c.partition
  FROM audit_v1.checkpoint AS c
  JOIN audit_v1.generation AS g ON g.id = c.generation AND g.retired_at IS NULL
 GROUP BY c.partition
HAVING count(*) FILTER (WHERE c.publishes) <> 1
 UNION ALL
SELECT 'a generation does not stand where the active one stands', format('generation %s is at offset %s, the active one at %s', b.id, c.next, a.next), a.lane, a.partition
  FROM audit_v1.checkpoint AS a
  JOIN audit_v1.generation AS g ON g.id = a.generation AND g.active
 CROSS JOIN audit_v1.generation AS b
  LEFT JOIN audit_v1.checkpoint AS c ON (c.generation, c.partition) = (b.id, a.partition)
 WHERE b.retired_at IS NULL
   AND (c.next IS DISTINCT FROM a.next
        OR EXISTS (SELECT p.lane, p.applied_seq FROM audit_v1.projection AS p WHERE (p.generation, p.partition) = (b.id, a.partition)
                   EXCEPT
                   SELECT p.lane, p.applied_seq FROM audit_v1.projection AS p WHERE (p.generation, p.partition) = (a.generation, a.partition)))
 ORDER BY 1, 2;
