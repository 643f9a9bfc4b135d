-- Numbers beyond the pruned mark that the outbox lacks or has twice, or holds as what they are not: an input lane numbers
-- history, what everybody is told, what is replayed and results of deliveries, a projector's lane events.
WITH waiting AS (
    SELECT x.lane, x.seq, x.kind, x.topic, lag(x.seq, 1, coalesce(r.pruned_seq, 0)) OVER (PARTITION BY x.lane ORDER BY x.seq) AS before
      FROM audit_v1.outbox AS x
      LEFT JOIN audit_v1.relay AS r ON r.lane = x.lane
     WHERE x.seq > coalesce(r.pruned_seq, 0))
SELECT CASE WHEN w.seq = w.before THEN 'a number is in the outbox twice' ELSE 'numbers are missing in the outbox' END AS what,
       w.lane, w.before + 1 AS seq, format('number %s follows %s', w.seq, w.before) AS detail
  FROM waiting AS w
 WHERE w.seq <> w.before + 1
 UNION ALL
SELECT 'the outbox holds a number as what it is not', w.lane, w.seq, format('kind %s in a lane of kind %s', w.kind, p.kind)
  FROM waiting AS w
  JOIN audit_v1.position AS p ON p.lane = w.lane
  LEFT JOIN audit_v1.outcome AS o ON (o.lane, o.result_seq) = (w.lane, w.seq)
 WHERE (w.kind = 'event' AND w.topic <> 'replays') <> (p.kind <> 'input' OR o.result_seq IS NOT NULL)
 UNION ALL
SELECT 'the outbox does not end at the lane''s sequence', p.lane, coalesce(max(w.seq), r.pruned_seq, 0),
       format('it ends at %s, the sequence is %s', coalesce(max(w.seq), r.pruned_seq, 0), p.sequence)
  FROM audit_v1.position AS p
  LEFT JOIN waiting AS w ON w.lane = p.lane
  LEFT JOIN audit_v1.relay AS r ON r.lane = p.lane
 GROUP BY p.lane, p.sequence, r.pruned_seq
HAVING coalesce(max(w.seq), r.pruned_seq, 0) <> p.sequence
 ORDER BY 2, 3;
