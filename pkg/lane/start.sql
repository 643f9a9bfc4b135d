WITH started AS (
    UPDATE lane AS l
       SET starts = l.starts + 1
      FROM (SELECT k.id FROM lane AS k WHERE k.id = ANY ($1) ORDER BY k.id FOR UPDATE) AS mine
     WHERE l.id = mine.id
    RETURNING l.starts)
SELECT coalesce(max(s.starts), 0)
  FROM started AS s;
