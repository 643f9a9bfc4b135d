-- Outcomes where a halted lane's log holds nothing, of one that went on without deciding so, or of offsets that an operator let
-- go unread; and what went on without a decision: a lane is retired by one, and an outcome `skipped` is of one.
SELECT 'an outcome lies beyond a halt' AS what, o.tenant, o.lane, o."offset", o.item, h.reason AS detail
  FROM audit_v1.halt AS h
  JOIN audit_v1.position AS p ON p.lane = h.lane AND p.kind = 'input'
  JOIN audit_v1.outcome AS o ON o.lane = h.lane AND o."offset" >= h.from_offset
 WHERE h.reason = 'log_gap'
 UNION ALL
SELECT 'an outcome lies in a gap', o.tenant, o.lane, o."offset", o.item, format('offsets %s to %s were let go', g.from_offset, g.to_offset)
  FROM audit_v1.gap AS g
  JOIN audit_v1.outcome AS o ON o.lane = g.lane AND o."offset" >= g.from_offset AND o."offset" < g.to_offset
 WHERE g.reason = 'log_gap'
 UNION ALL
SELECT 'a lane is retired and nobody decided it', '', p.lane, p.next, 0, p.topic
  FROM audit_v1.position AS p
 WHERE p.retired_at IS NOT NULL
   AND NOT EXISTS (SELECT FROM audit_v1.gap AS g WHERE g.lane = p.lane AND g.reason = 'topic_recreated')
 UNION ALL
SELECT 'an event is skipped and nobody decided it', o.tenant, o.lane, o."offset", o.item, ''
  FROM audit_v1.outcome AS o
 WHERE o.outcome = 'skipped'
   AND NOT EXISTS (SELECT FROM audit_v1.gap AS g WHERE g.lane = o.lane AND o."offset" >= g.from_offset AND o."offset" < g.to_offset)
 ORDER BY 3, 4, 5;
