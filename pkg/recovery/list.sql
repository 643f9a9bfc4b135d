SELECT r.stage, r.topic, r.partition, r.lane, r.n, r.worker, coalesce(r.predecessor, ''), r.heard, r.checkpoint, r.until, r.reached, r.latest,
       r.started_at, r.left_at, greatest(r.started_at, r.moved_at)
  FROM audit_v1.recovery AS r
 ORDER BY r.stage, r.topic, r.partition, r.lane, r.n;
