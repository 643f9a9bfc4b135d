-- A start of worker $2 at each of the lanes. Only the last word of who had it before tells whether that one left in order: if not,
-- what it committed and nobody has heard of begins where the mirror stands, or where it began itself.
INSERT INTO recovery AS r (stage, lane, slot, n, worker, predecessor, heard, checkpoint, until)
SELECT $1, f.lane, (coalesce(p.n, 0) + 1) % 32, coalesce(p.n, 0) + 1, $2, p.worker,
       CASE WHEN p.worker IS NULL THEN f.at ELSE least(f.at, greatest(f.heard, p.checkpoint)) END, f.at, greatest(f.at, f.until)
  FROM unnest($3::int[], $4::bigint[], $5::bigint[], $6::bigint[]) AS f (lane, heard, at, until)
  LEFT JOIN LATERAL (SELECT k.n, k.checkpoint, CASE WHEN k.left_at IS NULL THEN k.worker END AS worker
                       FROM recovery AS k
                      WHERE (k.stage, k.lane) = ($1, f.lane)
                      ORDER BY k.n DESC
                      LIMIT 1) AS p ON true
 ORDER BY f.lane
    ON CONFLICT (stage, lane, slot) DO UPDATE
   SET n = excluded.n, worker = excluded.worker, predecessor = excluded.predecessor, heard = excluded.heard, checkpoint = excluded.checkpoint,
       until = excluded.until, started_at = excluded.started_at, left_at = NULL
RETURNING r.lane, r.n;
