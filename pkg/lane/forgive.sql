UPDATE lane AS l
   SET starts = 0, tries = 0
  FROM (SELECT k.id FROM lane AS k WHERE k.id = ANY ($1) ORDER BY k.id FOR UPDATE) AS mine
 WHERE l.id = mine.id;
