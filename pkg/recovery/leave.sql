UPDATE recovery AS r
   SET left_at = clock_timestamp()
  FROM unnest($2::int[], $3::bigint[]) AS s (lane, n)
 WHERE (r.stage, r.lane, r.n) = ($1, s.lane, s.n)
   AND r.left_at IS NULL;
