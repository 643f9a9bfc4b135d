-- Entries by id, locked in one order.
SELECT q.tenant, q.id, q.delivery, coalesce(q.feed, ''), q.row, q.reason, coalesce(q.detail, ''), coalesce(q.message, ''),
       coalesce(q.line, 0), coalesce(q."column", 0), coalesce(q.path, ''), coalesce(q.event_source, ''), coalesce(q.event_id, ''),
       coalesce(q.canonicalization, ''), q.fingerprint, q.lane, q."offset", q.item, q.archived, q.content, q.observation,
       q.state, q.recorded_at
  FROM quarantine AS q
 WHERE q.tenant = $1
   AND q.id = ANY ($2)
 ORDER BY q.id
   FOR UPDATE;
