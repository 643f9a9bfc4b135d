-- Retire the lanes of the topic that lane $1 knows: the topic was made again.
UPDATE lane AS l
   SET retired_at = $2, halt_reason = NULL, halt_from = NULL, halt_to = NULL, halted_at = NULL
  FROM (SELECT k.id
          FROM lane AS k
          JOIN lane AS one ON (one.kind, one.topic_id) = (k.kind, k.topic_id)
         WHERE one.id = $1
         ORDER BY k.id
           FOR UPDATE OF k) AS old
 WHERE l.id = old.id
RETURNING l.id, l.next;
