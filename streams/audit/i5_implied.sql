-- Deletions that no snapshot implies, and records that the newest snapshot of an account lacks and does not delete.
WITH counts AS (
    SELECT d.tenant, d.account, d.subject AS run, d.as_of
      FROM audit_v1.eligibility AS d
     WHERE d.as_of IS NOT NULL
       AND NOT EXISTS (SELECT FROM audit_v1.eligibility AS later WHERE (later.tenant, later.subject) = (d.tenant, d.subject) AND later.n > d.n)),
void AS (
    SELECT d.tenant, d.feed, d.mapping_version
      FROM audit_v1.eligibility AS d
     WHERE d.kind = 'mapping'
       AND d.standing = 0
       AND NOT EXISTS (SELECT FROM audit_v1.eligibility AS later WHERE (later.tenant, later.subject) = (d.tenant, d.subject) AND later.n > d.n)),
-- What a page is read as that is a page of one that counts: the newest of its readings in force.
page AS (
    SELECT c.tenant, c.run, r.delivery,
           (array_agg(r.rejected ORDER BY r.mapping_version DESC) FILTER (WHERE v.feed IS NULL))[1] AS rejected
      FROM counts AS c
      JOIN audit_v1.run AS p ON (p.tenant, p.id) = (c.tenant, c.run)
      JOIN audit_v1.outcome AS r ON (r.tenant, r.delivery) = (p.tenant, p.delivery) AND r.outcome IN ('accepted', 'reread')
      LEFT JOIN void AS v ON (v.tenant, v.feed, v.mapping_version) = (r.tenant, r.feed, r.mapping_version)
     GROUP BY c.tenant, c.run, r.delivery),
newest AS (
    SELECT DISTINCT ON (c.tenant, c.account) c.tenant, c.account, c.run, c.as_of
      FROM counts AS c
     ORDER BY c.tenant, c.account, c.as_of DESC, c.run DESC)
SELECT 'a deletion follows from no snapshot' AS what, o.tenant, o.delivery::text, o.id::text AS observation, o.lane, o.seq,
       o.account || '/' || o.record AS detail
  FROM audit_v1.observation AS o
 WHERE o.mapping_version = 0
   AND NOT EXISTS (SELECT
                     FROM audit_v1.eligibility AS d
                    WHERE (d.tenant, d.subject, d.account, d.as_of) = (o.tenant, o.run, o.account, o.ord))
 UNION ALL
SELECT 'a record that the newest snapshot lacks is not deleted', n.tenant, '', '', 0, 0, n.account || '/' || o.record
  FROM newest AS n
  JOIN audit_v1.observation AS o ON (o.tenant, o.account) = (n.tenant, n.account)
 WHERE NOT o.strong
   AND o.ord < n.as_of
   AND o.mapping_version > 0
   AND NOT EXISTS (SELECT FROM page AS p WHERE (p.tenant, p.run) = (n.tenant, n.run) AND p.rejected IS DISTINCT FROM 0)
   AND NOT EXISTS (SELECT
                     FROM audit_v1.claim AS c
                     JOIN audit_v1.observation AS b ON (b.tenant, b.offer, b.id) = (c.tenant, c.offer, c.observation)
                    WHERE (c.tenant, c.offer, c.run) = (o.tenant, o.offer, n.run)
                      AND (b.mapping_version = 0
                           OR (b.tenant, b.feed, b.mapping_version) NOT IN (SELECT v.tenant, v.feed, v.mapping_version FROM void AS v)
                          AND NOT EXISTS (SELECT
                                            FROM audit_v1.eligibility AS d
                                           WHERE (d.tenant, d.delivery) = (c.tenant, c.delivery)
                                             AND d.kind = 'reading'
                                             AND d.mapping_version > b.mapping_version
                                             AND (d.tenant, d.feed, d.mapping_version) NOT IN (SELECT v.tenant, v.feed, v.mapping_version FROM void AS v))))
 GROUP BY n.tenant, n.account, o.record
 ORDER BY 1, 2, 7;
