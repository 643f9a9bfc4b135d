-- The attempts at places, in the order in which they were recorded, each with what belongs to it. A duplicate has evidence
-- and observations of the first (s): the receipt that a repeat gets back. A replay key begins with the feed's source; a
-- command has none, and is named by its topic. The entries of an artifact are sorted by offset and item, so the entry is the
-- first of its item from the first of its offset on. Numbers are looked up one by one: of a range the planner thinks that it is
-- long, and reads all that the tenant has beside it.
SELECT o.tenant, coalesce(o.feed, ''), o.delivery,
       coalesce(f.connector, CASE WHEN o.tenant <> '_system' THEN l.topic END, ''), coalesce(f.account, ''),
       coalesce(o.event_source, ''), coalesce(o.event_id, ''), coalesce(o.event_type, ''), coalesce(o.declared, ''),
       l.topic, l.partition, o."offset", o.item, o.outcome, coalesce(o.reason, ''), coalesce(o.detail, ''), coalesce(o.message, ''),
       coalesce(o.canonicalization, ''), o.fingerprint, coalesce(o.mapping_version, 0), o.rows, o.saved, o.duplicate, o.old,
       o.ambiguous_order, o.rejected, o.rejections, o.warnings, coalesce(o.beyond_horizon, false), coalesce(o.run, ''), coalesce(o.page, 0), o.retrieved_ns, o.recorded_at,
       first_lane.topic, first_lane.partition, o.accepted_offset, o.accepted_item,
       e.object, e.key_id, e.state, e."offset", e.item, e.sum, e.length,
       ARRAY(SELECT c.id
               FROM generate_series(s.first_seq, s.last_seq) AS n (seq)
              CROSS JOIN LATERAL (SELECT b.id FROM observation AS b WHERE (b.lane, b.seq) = (s.lane, n.seq)
                                   UNION ALL
                                  SELECT g.observation FROM sighting AS g WHERE (g.lane, g.seq) = (s.lane, n.seq)
                                  OFFSET 0) AS c
              ORDER BY n.seq),
       CASE WHEN o.delivery IS NULL THEN 1
            ELSE greatest((SELECT count(*) FROM receipt AS r WHERE (r.tenant, r.delivery) = (o.tenant, o.delivery)),
                          CASE WHEN o.outcome = 'accepted' THEN 1 END)
               + (SELECT count(*) FROM outcome AS x WHERE (x.tenant, x.delivery) = (o.tenant, o.delivery) AND x.outcome <> 'accepted')
       END,
       -- How its claims count: as the last decision on its run says, or as the first of them was taken.
       CASE WHEN o.run IS NULL OR o.outcome = 'quarantined' THEN 2
            ELSE coalesce((SELECT coalesce((SELECT d.standing
                                              FROM decision AS d
                                             WHERE (d.tenant, d.subject) = (o.tenant, c.run)
                                             ORDER BY d.n DESC
                                             LIMIT 1), CASE WHEN c.held THEN 0 ELSE 1 END)
                             FROM (SELECT b.run, b.held FROM observation AS b WHERE (b.lane, b.seq) = (s.lane, s.first_seq)
                                    UNION ALL
                                   SELECT g.run, g.held FROM sighting AS g WHERE (g.lane, g.seq) = (s.lane, s.first_seq)
                                   OFFSET 0) AS c
                            WHERE c.run IS NOT NULL), 2) END
  FROM unnest($1::int[], $2::bigint[], $3::int[]) AS p (lane, "offset", item)
  JOIN outcome AS o ON (o.lane, o."offset", o.item) = (p.lane, p."offset", p.item)
  JOIN lane AS l ON l.id = o.lane
  LEFT JOIN lane AS first_lane ON first_lane.id = o.accepted_lane
  LEFT JOIN feed AS f ON (f.tenant, f.name) = (o.tenant, o.feed)
  LEFT JOIN LATERAL (SELECT s.lane, s."offset", s.item, s.archived, s.first_seq, s.last_seq
                       FROM outcome AS s
                      WHERE s.lane = CASE WHEN o.outcome = 'duplicate' THEN o.accepted_lane ELSE o.lane END
                        AND s."offset" = CASE WHEN o.outcome = 'duplicate' THEN o.accepted_offset ELSE o."offset" END
                        AND s.item = CASE WHEN o.outcome = 'duplicate' THEN o.accepted_item ELSE o.item END) AS s ON true
  LEFT JOIN LATERAL (SELECT a.object, a.key_id, a.state, a.offsets[a.i] AS "offset", a.items[a.i] AS item, a.sums[a.i] AS sum, a.lengths[a.i] AS length
                       FROM (SELECT a.object, a.key_id, a.state, a.offsets, a.items, a.sums, a.lengths,
                                    array_position(a.items, s.item, coalesce(array_position(a.offsets, s."offset"), 1)) AS i
                               FROM lane AS sl
                               JOIN artifact AS a ON (a.tenant, a.topic_id, a.partition) = (o.tenant, sl.topic_id, sl.partition)
                              WHERE sl.id = s.lane
                                AND a.first <= s."offset"
                              ORDER BY a.first DESC
                              LIMIT 1) AS a
                      WHERE a.offsets[a.i] = s."offset") AS e ON s.archived
 ORDER BY o.recorded_at, o.lane, o."offset", o.item;
