-- The offsets of input lanes that a selection of tenant $1 covers by now: those of topic $2 ('': of all) and partition $3 (-1: of
-- all) from $4 to below $5 (null: no bound), and of artifact $6 ('': of all).
SELECT l.id, greatest(l.start, $4::bigint, a.first), least(l.next, $5::bigint, a.last + 1)
  FROM lane AS l
  LEFT JOIN LATERAL (SELECT a.first, a.last
                       FROM artifact AS a
                      WHERE (a.tenant, a.topic_id, a.partition) = ($1, l.topic_id, l.partition)
                        AND a.object = $6) AS a ON $6 <> ''
 WHERE l.kind = 'input'
   AND l.topic <> 'commands'
   AND ($2 = '' OR l.topic = $2)
   AND ($3::int < 0 OR l.partition = $3)
   AND ($6 = '' OR a.first IS NOT NULL)
 ORDER BY l.id;
