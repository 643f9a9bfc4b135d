-- Pages and events of runs, and entries of quarantine, that outcomes tell of and that are gone without a receipt.
SELECT 'what came of a run is gone, and no receipt says why' AS what, o.tenant, coalesce(o.delivery::text, '') AS delivery, o.lane, o."offset", o.item,
       format('run %s of feed %s', o.run, o.feed) AS detail
  FROM audit_v1.outcome AS o
 WHERE o.outcome = 'accepted'
   AND o.run IS NOT NULL
   AND NOT EXISTS (SELECT FROM audit_v1.run AS r WHERE (r.tenant, r.delivery) = (o.tenant, o.delivery))
   AND NOT EXISTS (SELECT FROM audit_v1.run_event AS e WHERE (e.tenant, e.delivery) = (o.tenant, o.delivery))
   AND NOT EXISTS (SELECT FROM audit_v1.pruning AS p WHERE (p.tenant, p.kind, p.feed) = (o.tenant, 'runs', o.feed) AND p.before > o.recorded_at)
 UNION ALL
SELECT 'an entry of quarantine is gone, and no receipt says why', o.tenant, coalesce(o.delivery::text, ''), o.lane, o."offset", o.item, o.reason
  FROM audit_v1.outcome AS o
 WHERE o.outcome = 'quarantined'
   AND NOT EXISTS (SELECT
                     FROM audit_v1.quarantine AS q
                    WHERE (q.tenant, q.delivery, q.row) = (o.tenant, o.delivery, 0)
                      AND q.fingerprint IS NOT DISTINCT FROM o.fingerprint)
   AND NOT EXISTS (SELECT
                     FROM audit_v1.quarantine AS q
                    WHERE (q.tenant, q.lane, q."offset", q.item, q.row) = (o.tenant, o.lane, o."offset", o.item, 0))
   AND NOT EXISTS (SELECT
                     FROM audit_v1.pruning AS p
                    WHERE (p.tenant, p.kind, p.feed) = (o.tenant, 'quarantine', o.feed)
                      AND p.recorded_at > o.recorded_at) -- another copy may have come after the entry was settled
 ORDER BY 4, 5, 6;
