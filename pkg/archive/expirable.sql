-- Objects of tenant $1 that are stored and that nothing needs any more, $4 at most: each entry is of an event of the feeds $2 that
-- was recorded before the time beside it in $3, waits for no decision, and is of no delivery about which quarantine holds a
-- question open. A delivery whose run is held waits for one: its first claim says so, until a decision on the run frees or
-- rejects it.
WITH old AS (
    SELECT f.feed, f.before
      FROM unnest($2::text[], $3::timestamptz[]) AS f (feed, before)
)
SELECT a.topic_id, a.partition, a.first, a.object
  FROM artifact AS a
  JOIN lane AS l ON (l.kind, l.topic_id, l.partition) = ('input', a.topic_id, a.partition)
 WHERE a.tenant = $1
   AND a.state = 'stored'
   AND NOT EXISTS (
       SELECT
         FROM unnest(a.offsets, a.items) AS e (at, item)
         LEFT JOIN outcome AS o ON (o.lane, o."offset", o.item) = (l.id, e.at, e.item)
         LEFT JOIN old ON old.feed = o.feed
        WHERE coalesce(o.recorded_at >= old.before, true)
           OR EXISTS (SELECT FROM quarantine AS q WHERE (q.tenant, q.delivery) = (o.tenant, o.delivery) AND q.state = 'open')
           OR EXISTS (SELECT FROM quarantine AS q
                       WHERE (q.tenant, q.lane, q."offset", q.item) = (o.tenant, o.lane, o."offset", o.item) AND q.state = 'open')
           OR EXISTS (SELECT
                        FROM (SELECT b.run FROM observation AS b WHERE (b.lane, b.seq) = (o.lane, o.first_seq) AND b.held
                               UNION ALL
                              SELECT s.run FROM sighting AS s WHERE (s.lane, s.seq) = (o.lane, o.first_seq) AND s.held) AS claim
                       WHERE coalesce((SELECT d.verdict
                                         FROM decision AS d
                                        WHERE (d.tenant, d.subject) = (o.tenant, claim.run)
                                        ORDER BY d.n DESC
                                        LIMIT 1), 'braked') = 'braked'))
 ORDER BY a.topic_id, a.partition, a.first, a.object
 LIMIT $4;
