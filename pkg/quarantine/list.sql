SELECT q.tenant, q.id, q.delivery, coalesce(q.feed, ''), q.row, q.reason, coalesce(q.detail, ''), coalesce(q.message, ''),
       coalesce(q.line, 0), coalesce(q."column", 0), coalesce(q.path, ''), coalesce(q.event_source, ''), coalesce(q.event_id, ''),
       coalesce(q.canonicalization, ''), q.fingerprint, q.lane, q."offset", q.item, q.archived, q.content, q.observation,
       q.state, q.recorded_at
  FROM quarantine AS q
 WHERE q.tenant = current_tenant()
   AND ($1::uuid IS NULL OR q.id = $1)
   AND ($2 = '' OR q.reason = $2)
   AND (NOT $3 OR q.state = 'open')
   AND ($5 = '' OR q.feed = $5)
   AND ($6 = '' OR q.detail = $6)
   AND ($7::timestamptz IS NULL OR q.recorded_at >= $7)
 ORDER BY q.recorded_at DESC, q.id
 LIMIT $4;
