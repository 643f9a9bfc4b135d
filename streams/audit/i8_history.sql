-- Numbers of input lanes that history lacks or has twice: from 1 to the lane's sequence each is an observation, a sighting, a
-- decision, a replay or the result of a delivery, for ever.
WITH claim AS (
    SELECT c.tenant, c.delivery, c.observation, c.lane, c.seq
      FROM audit_v1.claim AS c
     UNION ALL
    SELECT d.tenant, d.command, d.subject, d.lane, d.seq
      FROM audit_v1.eligibility AS d
     UNION ALL
    SELECT o.tenant, o.delivery, NULL, o.lane, o.result_seq
      FROM audit_v1.outcome AS o
     WHERE o.result_seq IS NOT NULL
     UNION ALL
    SELECT q.tenant, q.command, q.entry, q.lane, q.seq
      FROM audit_v1.quarantine_decision AS q
     WHERE q.lane IS NOT NULL
     UNION ALL
    SELECT p.tenant, p.command, p.replay, p.lane, generate_series(p.first_seq, p.last_seq)
      FROM audit_v1.replay_page AS p)
SELECT CASE WHEN c.seq = c.before THEN 'a number of history is there twice' ELSE 'numbers are missing in history' END AS what,
       c.tenant, coalesce(c.delivery::text, '') AS delivery, coalesce(c.observation::text, '') AS observation, c.lane, c.before + 1 AS seq,
       format('number %s follows %s', c.seq, c.before) AS detail
  FROM (SELECT c.tenant, c.delivery, c.observation, c.lane, c.seq,
               lag(c.seq, 1, 0::bigint) OVER (PARTITION BY c.lane ORDER BY c.seq) AS before
          FROM claim AS c) AS c
 WHERE c.seq <> c.before + 1
 UNION ALL
SELECT 'history does not end at the lane''s sequence', '', '', '', p.lane, coalesce(max(c.seq), 0),
       format('it ends at %s, the sequence is %s', coalesce(max(c.seq), 0), p.sequence)
  FROM audit_v1.position AS p
  LEFT JOIN claim AS c ON c.lane = p.lane
 GROUP BY p.lane, p.kind, p.sequence
HAVING coalesce(max(c.seq), 0) <> CASE p.kind WHEN 'input' THEN p.sequence ELSE 0 END
 ORDER BY 5, 6;
