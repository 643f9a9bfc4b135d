-- Deleted offers that were shown again though their deletion ranks higher, and nothing was decided that takes it out: nothing about it,
-- its feed, its mapping version, items of the offer or what claims it; no newer reading and no newer snapshot; no end of its time; and
-- no other generation was switched to.
WITH shown AS (
    SELECT c.tenant, c.offer, c.revision, c.strong, c.ord, c.observation,
           lag(c.strong) OVER o AS strong_before, lag(c.ord) OVER o AS ord_before, lag(c.observation) OVER o AS before
      FROM audit_v1.offer_change AS c
    WINDOW o AS (PARTITION BY c.tenant, c.offer ORDER BY c.revision))
SELECT 'a deleted offer has returned with no higher rank, and by no decision' AS what, n.tenant,
       n.tenant || '/' || n.account || '/' || n.record AS offer, n.id::text AS observation,
       format('revision %s shows it after deletion %s', s.revision, d.id) AS detail
  FROM shown AS s
  JOIN audit_v1.observation AS d ON (d.tenant, d.offer, d.strong, d.ord, d.id) = (s.tenant, s.offer, s.strong_before, s.ord_before, s.before)
  JOIN audit_v1.observation AS n ON (n.tenant, n.offer, n.strong, n.ord, n.id) = (s.tenant, s.offer, s.strong, s.ord, s.observation)
 WHERE d.deleted
   AND NOT n.deleted
   AND (n.strong, n.ord, n.mapping_version, n.row_hash, n.id) <= (d.strong, d.ord, d.mapping_version, d.row_hash, d.id)
   AND d.until_ns IS NULL
   AND NOT EXISTS (SELECT
                     FROM audit_v1.eligibility AS e
                    WHERE e.tenant = d.tenant
                      AND (e.standing = 0 AND (e.kind = 'observation' AND e.subject = d.id
                                               OR e.kind = 'feed' AND e.feed = d.feed
                                               OR e.kind = 'mapping' AND (e.feed, e.mapping_version) = (d.feed, d.mapping_version)
                                               OR e.kind = 'item' AND e.offer = d.offer)
                           OR e.as_of IS NOT NULL AND e.account = d.account AND d.mapping_version = 0 AND (e.as_of, e.subject) > (d.ord, d.run)))
   AND NOT EXISTS (SELECT
                     FROM audit_v1.claim AS k
                     JOIN audit_v1.eligibility AS e ON e.tenant = k.tenant
                                                   AND (e.standing = 0 AND e.kind IN ('run', 'delivery') AND e.subject IN (k.run, k.delivery)
                                                        OR e.kind = 'reading' AND e.delivery = k.delivery AND e.mapping_version > d.mapping_version)
                    WHERE (k.tenant, k.offer, k.observation) = (d.tenant, d.offer, d.id))
   -- A snapshot that was read again may have the record.
   AND NOT (d.mapping_version = 0 AND EXISTS (SELECT
                                                FROM audit_v1.claim AS k
                                               WHERE (k.tenant, k.offer, k.run) = (d.tenant, d.offer, d.run) AND k.observation <> d.id))
   AND NOT EXISTS (SELECT FROM audit_v1.generation_decision AS g WHERE g.action IN ('switch', 'rollback'))
 ORDER BY s.tenant, s.offer, s.revision;
