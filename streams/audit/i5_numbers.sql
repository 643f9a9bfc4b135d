-- Outcomes whose counts do not sum to their rows, or whose numbers do not follow those of the outcome before: then a claim
-- belongs to two deliveries or to none. Between them are the decisions that follow from deliveries, what is replayed, the deletions that a
-- snapshot implies, and the results that are told.
WITH other AS (
    SELECT d.lane, d.seq
      FROM audit_v1.eligibility AS d
     UNION ALL
    SELECT q.lane, q.seq
      FROM audit_v1.quarantine_decision AS q
     WHERE q.lane IS NOT NULL
     UNION ALL
    SELECT p.lane, generate_series(p.first_seq, p.last_seq)
      FROM audit_v1.replay_page AS p
     UNION ALL
    SELECT o.lane, o.seq
      FROM audit_v1.observation AS o
     WHERE o.mapping_version = 0
     UNION ALL
    SELECT o.lane, o.result_seq
      FROM audit_v1.outcome AS o
     WHERE o.result_seq IS NOT NULL),
numbered AS (
    SELECT o.tenant, o.delivery, o.lane, o."offset", o.item, o.first_seq, o.last_seq,
           lag(o.last_seq, 1, 0::bigint) OVER (PARTITION BY o.lane ORDER BY o."offset", o.item) AS before
      FROM audit_v1.outcome AS o
     WHERE o.first_seq IS NOT NULL OR o.last_seq IS NOT NULL)
SELECT 'the row counts of an outcome do not add up' AS what, o.tenant, coalesce(o.delivery::text, '') AS delivery, o.lane, o."offset", o.item,
       format('%s rows, %s saved, %s duplicate, %s old, %s ambiguous_order, %s rejected, numbers %s to %s', o.rows, o.saved, o.duplicate,
              o.old, o.ambiguous_order, o.rejected, o.first_seq, o.last_seq) AS detail
  FROM audit_v1.outcome AS o
 WHERE o.rows <> o.saved + o.duplicate + o.old + o.ambiguous_order + o.rejected
    OR NOT coalesce(o.last_seq - o.first_seq + 1, 0)
           BETWEEN o.saved + o.old + o.ambiguous_order AND o.saved + o.old + o.ambiguous_order + o.duplicate
 UNION ALL
SELECT 'the numbers of an outcome do not follow those before it', n.tenant, coalesce(n.delivery::text, ''), n.lane, n."offset", n.item,
       format('numbers %s to %s follow %s', n.first_seq, n.last_seq, n.before)
  FROM numbered AS n
 WHERE n.last_seq IS NULL
    OR n.first_seq IS DISTINCT FROM n.before + 1
   AND n.first_seq - n.before - 1 IS DISTINCT FROM (SELECT count(*) FROM other AS x WHERE x.lane = n.lane AND x.seq > n.before AND x.seq < n.first_seq)
 UNION ALL
SELECT 'the numbers of the outcomes do not reach the end of the lane', '', '', p.lane, NULL, 0,
       format('%s of %s', coalesce(max(n.last_seq), 0), p.sequence)
  FROM audit_v1.position AS p
  LEFT JOIN numbered AS n ON n.lane = p.lane
 WHERE p.kind = 'input'
 GROUP BY p.lane, p.sequence
HAVING coalesce(max(n.last_seq), 0) <> p.sequence
   AND p.sequence - coalesce(max(n.last_seq), 0) <> (SELECT count(*) FROM other AS x WHERE x.lane = p.lane AND x.seq > coalesce(max(n.last_seq), 0))
 ORDER BY 1, 4, 5, 6;
