-- The next tick, where a lane has gone on since the last one. The clock is read by the same statement as the lanes.
WITH reached AS (
    SELECT coalesce(array_agg(l.id ORDER BY l.id), '{}') AS lanes, coalesce(array_agg(l.sequence ORDER BY l.id), '{}') AS upto
      FROM lane AS l
     WHERE l.kind = 'input'
       AND l.sequence > 0),
head AS (
    UPDATE tick_head AS h
       SET n = h.n + 1, at = greatest(h.at, clock_timestamp())
      FROM reached AS r
     WHERE NOT EXISTS (SELECT FROM tick AS t WHERE t.n = h.n AND (t.lanes, t.upto) = (r.lanes, r.upto))
       AND r.lanes <> '{}'
    RETURNING h.n, h.at)
INSERT INTO tick (n, at, lanes, upto)
SELECT h.n, h.at, r.lanes, r.upto
  FROM head AS h
 CROSS JOIN reached AS r;
