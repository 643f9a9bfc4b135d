-- Remove runs of tenant $1, which are locked, with all that came of them.
WITH events AS (
    DELETE FROM run_event AS e WHERE e.tenant = $1 AND e.run = ANY ($2::uuid[])),
pages AS (
    DELETE FROM run_page AS p WHERE p.tenant = $1 AND p.run = ANY ($2::uuid[]))
DELETE FROM run AS r
 WHERE r.tenant = $1
   AND r.id = ANY ($2::uuid[]);
