-- What of topic $1, partition $2 (-1: all), from offset $3 to below $4 (null: no bound) was never stored: what stands below where its
-- lanes begin, as far down as it is asked for, and what an operator has let go: also what a log gives again under offsets of records
-- that it had lost.
SELECT l.partition, h.first, h.upto
  FROM lane AS l
 CROSS JOIN LATERAL (SELECT coalesce($3::bigint, l.start), least(l.start, $4::bigint)
                      UNION ALL
                     SELECT greatest(g.from_offset, $3::bigint), least(g.to_offset, $4::bigint)
                       FROM gap AS g
                      WHERE g.lane = l.id
                        AND g.reason IN ('log_gap', 'log_truncated')) AS h (first, upto)
 WHERE l.kind = 'input'
   AND l.topic = $1
   AND ($2::int < 0 OR l.partition = $2)
   AND l.retired_at IS NULL
   AND h.first < h.upto
 ORDER BY l.partition, h.first;
