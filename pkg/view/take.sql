-- The checkpoints of partition $1 (null: of all) in every generation that is not retired, the active one first. It is asked twice: what the first
-- asking waited for, a generation that was made or the pointer that moved, the second one sees.
SELECT p.generation, p.partition, p.topic_id, p.lane, p.next, p.lanes, p.applied, p.publishes
  FROM projection AS p
  JOIN generation AS g ON g.id = p.generation
 WHERE ($1::int IS NULL OR p.partition = $1)
   AND g.retired_at IS NULL
 ORDER BY p.partition, p.generation <> (SELECT a.active FROM generation_pointer AS a), p.generation
   FOR UPDATE OF p;
