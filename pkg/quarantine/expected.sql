-- The open entries of what no feed expected and one does now: by source and topics, the oldest first, at most $3.
SELECT q.tenant, q.id, q.delivery, coalesce(q.feed, ''), q.row, q.reason, coalesce(q.detail, ''), coalesce(q.message, ''),
       coalesce(q.line, 0), coalesce(q."column", 0), coalesce(q.path, ''), coalesce(q.event_source, ''), coalesce(q.event_id, ''),
       coalesce(q.canonicalization, ''), q.fingerprint, q.lane, q."offset", q.item, q.archived, q.content, q.observation,
       q.state, q.recorded_at
  FROM quarantine AS q
  JOIN lane AS l ON l.id = q.lane
 WHERE q.tenant = '_system'
   AND q.reason = 'unknown_feed'
   AND q.state = 'open'
   AND q.event_source = $1
   AND l.topic = ANY ($2)
 ORDER BY q.recorded_at, q.id
 LIMIT $3
   FOR UPDATE OF q;
