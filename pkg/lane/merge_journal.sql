-- Put committed intervals together that were recorded before $1 and that the relay has published: $2 of a lane at most. Only
-- those that follow each other without a gap become one, so that what is wrong in the journal stays to be seen.
WITH behind AS (
    SELECT j.lane, j.from_offset, j.to_offset, j.from_seq, j.to_seq, j.recorded_at,
           row_number() OVER w AS n,
           (lag(j.to_offset) OVER w, lag(j.to_seq) OVER w) IS DISTINCT FROM (j.from_offset, j.from_seq) AS begins
      FROM commit_journal AS j
      LEFT JOIN relay_cursor AS c ON c.lane = j.lane
     WHERE j.recorded_at < $1
       AND j.to_seq <= coalesce(c.published, 0)
    WINDOW w AS (PARTITION BY j.lane ORDER BY j.from_offset)
), numbered AS (
    SELECT b.lane, b.from_offset, b.to_offset, b.to_seq, b.recorded_at,
           count(*) FILTER (WHERE b.begins) OVER (PARTITION BY b.lane ORDER BY b.from_offset) AS island
      FROM behind AS b
     WHERE b.n <= $2
), island AS (
    SELECT n.lane, min(n.from_offset) AS first, max(n.from_offset) AS last, max(n.to_offset) AS to_offset, max(n.to_seq) AS to_seq,
           max(n.recorded_at) AS recorded_at
      FROM numbered AS n
     GROUP BY n.lane, n.island
    HAVING count(*) > 1
), gone AS (
    DELETE FROM commit_journal AS j
     USING island AS i
     WHERE j.lane = i.lane
       AND j.from_offset > i.first
       AND j.from_offset <= i.last
    RETURNING j.lane
), merged AS (
    UPDATE commit_journal AS j
       SET to_offset = i.to_offset, to_seq = i.to_seq, recorded_at = i.recorded_at, worker = 'merged'
      FROM island AS i
     WHERE (j.lane, j.from_offset) = (i.lane, i.first)
)
SELECT count(*)
  FROM gone AS g;
