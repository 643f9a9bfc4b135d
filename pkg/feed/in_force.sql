-- Put mapping version $3 of a feed in force.
WITH feed AS (
    UPDATE feed AS f SET mapping_version = $3 WHERE (f.tenant, f.name) = ($1, $2) AND f.mapping_version <> $3
    RETURNING f.name)
UPDATE registry AS r SET version = r.version + 1 WHERE EXISTS (SELECT FROM feed);
