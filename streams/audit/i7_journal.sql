-- Committed intervals that do not follow the one before them in offsets and numbers, and lanes that their last one does not
-- bring to where they stand.
SELECT 'a committed interval does not follow the one before' AS what, j.lane, j.from_offset AS "offset",
       format('offsets %s to %s follow %s, numbers %s to %s follow %s', j.from_offset, j.to_offset, j.before_offset, j.from_seq, j.to_seq,
              j.before_seq) AS detail
  FROM (SELECT j.lane, j.from_offset, j.to_offset, j.from_seq, j.to_seq,
               lag(j.to_offset, 1, p.start) OVER w AS before_offset,
               lag(j.to_seq, 1, 0::bigint) OVER w AS before_seq
          FROM audit_v1.commit_journal AS j
          JOIN audit_v1.position AS p ON p.lane = j.lane
        WINDOW w AS (PARTITION BY j.lane ORDER BY j.from_offset, j.to_offset)) AS j
 WHERE j.from_offset <> j.before_offset
    OR j.from_seq <> j.before_seq
    OR j.to_offset <= j.from_offset
    OR j.to_seq < j.from_seq
 UNION ALL
SELECT 'the committed intervals do not end where the lane stands', p.lane, p.next,
       format('they end at offset %s, number %s; the lane stands at offset %s, number %s', coalesce(max(j.to_offset), p.start),
              coalesce(max(j.to_seq), 0), p.next, p.sequence)
  FROM audit_v1.position AS p
  LEFT JOIN audit_v1.commit_journal AS j ON j.lane = p.lane
 GROUP BY p.lane, p.start, p.next, p.sequence
HAVING coalesce(max(j.to_offset), p.start) <> p.next
    OR coalesce(max(j.to_seq), 0) <> p.sequence
 ORDER BY 2, 3;
