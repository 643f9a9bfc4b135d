-- A new generation, at the places where the active one stands. Whoever projects waits for it, or has been waited for.
WITH made AS (
    INSERT INTO generation (id)
    SELECT max(g.id) + 1
      FROM generation AS g
    RETURNING id),
begun AS (
    INSERT INTO projection (generation, partition, topic_id, lane, next, lanes, applied)
    SELECT m.id, p.partition, p.topic_id, p.lane, p.next, p.lanes, p.applied
      FROM made AS m, projection AS p, generation_pointer AS a
     WHERE p.generation = a.active)
SELECT m.id
  FROM made AS m;
