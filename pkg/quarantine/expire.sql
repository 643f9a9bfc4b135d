-- Remove entries of feed ($1, $2) that were settled before $3, $4 at most.
WITH old AS (
    SELECT q.tenant, q.id
      FROM quarantine AS q
     WHERE (q.tenant, q.feed) = ($1, $2)
       AND q.state <> 'open'
       AND q.settled_at < $3
     ORDER BY q.settled_at, q.id
     LIMIT $4
       FOR UPDATE SKIP LOCKED)
DELETE FROM quarantine AS q
 USING old
 WHERE (q.tenant, q.id) = (old.tenant, old.id)
RETURNING q.id, q.settled_at;
