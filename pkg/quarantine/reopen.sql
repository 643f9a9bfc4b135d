-- Open the entries again that were settled by a release as a correction of which nobody has read the reference.
UPDATE quarantine AS q
   SET state = 'open', settled_at = NULL
 WHERE q.state = 'released'
   AND EXISTS (SELECT
                 FROM quarantine_decision AS d
                WHERE (d.tenant, d.entry) = (q.tenant, q.id)
                  AND d.release > 0)
   AND NOT EXISTS (SELECT
                     FROM quarantine_decision AS d
                     JOIN replay AS r ON (r.entry_tenant, r.entry, r.release) = (d.tenant, d.entry, d.release)
                    WHERE (d.tenant, d.entry) = (q.tenant, q.id)
                      AND d.release > 0);
