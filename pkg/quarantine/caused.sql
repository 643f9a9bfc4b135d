-- The open rows that were set aside because they contradict what the decisions of a command ($1) have taken out of the count: the
-- oldest first, and none that contradicts what still counts by another claim.
WITH decided AS (
    SELECT d.tenant, d.subject, d.kind, d.offer, d.feed, d.mapping_version
      FROM decision AS d
     WHERE (d.tenant, d.command) = (current_tenant(), $1::uuid)
       AND d.standing = 0),
claimed AS (
    SELECT d.offer, d.subject AS id FROM decided AS d WHERE d.kind = 'observation'
     UNION
    SELECT o.offer, o.id
      FROM decided AS d
      JOIN observation AS o ON (o.tenant, o.feed, o.mapping_version) = (d.tenant, d.feed, d.mapping_version)
     WHERE d.kind = 'mapping'
       AND o.id IN (SELECT q.observation FROM quarantine AS q WHERE q.tenant = current_tenant() AND q.state = 'open')
     UNION
    SELECT o.offer, o.id
      FROM decided AS d
      JOIN observation AS o ON (o.tenant, o.run) = (d.tenant, d.subject)
     WHERE d.kind = 'run'
     UNION
    SELECT s.offer, s.observation
      FROM decided AS d
      JOIN sighting AS s ON (s.tenant, s.run) = (d.tenant, d.subject)
     WHERE d.kind = 'run'
     UNION
    SELECT x.offer, x.id
      FROM decided AS d
      JOIN delivery_reading AS a ON (a.tenant, a.delivery) = (d.tenant, d.subject)
     CROSS JOIN LATERAL (SELECT o.offer, o.id FROM observation AS o WHERE o.lane = a.lane AND o.seq BETWEEN a.first_seq AND a.last_seq
                          UNION ALL
                         SELECT s.offer, s.observation FROM sighting AS s WHERE s.lane = a.lane AND s.seq BETWEEN a.first_seq AND a.last_seq) AS x
     WHERE d.kind = 'delivery'),
now AS (
    SELECT array_agg(l.id) AS lanes, array_agg(l.sequence) AS upto FROM lane AS l WHERE l.kind = 'input')
SELECT q.tenant, q.id, q.delivery, coalesce(q.feed, ''), q.row, q.reason, coalesce(q.detail, ''), coalesce(q.message, ''),
       coalesce(q.line, 0), coalesce(q."column", 0), coalesce(q.path, ''), coalesce(q.event_source, ''), coalesce(q.event_id, ''),
       coalesce(q.canonicalization, ''), q.fingerprint, q.lane, q."offset", q.item, q.archived, q.content, q.observation,
       q.state, q.recorded_at
  FROM claimed AS c
  JOIN quarantine AS q ON (q.tenant, q.observation) = (current_tenant(), c.id)
 CROSS JOIN now AS n
 WHERE q.state = 'open'
   AND NOT EXISTS (SELECT
                     FROM candidates(q.tenant, c.offer, n.lanes, n.upto, NULL) AS k
                    WHERE k.observation = c.id
                      AND k.standing > 0)
 ORDER BY q.recorded_at, q.id;
