-- The runs of the transaction's tenant, the newest first: of one feed or all (''), with one name or all (''). Pages and events are
-- lists in the order in which they came.
SELECT r.tenant, r.id, r.feed, r.name, r.recorded_at, coalesce(f.connector, ''), coalesce(f.spec #>> '{policy,run_timeout}', ''),
       (SELECT coalesce(jsonb_agg(jsonb_build_object('page', p.page, 'pages', coalesce(p.pages, 0), 'delivery', p.delivery, 'rejected', p.rejected,
                                                     'recorded_at', p.recorded_at)
                                  ORDER BY p.recorded_at, p.page, p.delivery), '[]')
          FROM run_page AS p
         WHERE (p.tenant, p.run) = (r.tenant, r.id)),
       (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', e.kind, 'at', e.at, 'credential', coalesce(e.credential, ''), 'pages', coalesce(e.pages, 0),
                                                     'page', coalesce(e.page, 0), 'attempt', coalesce(e.attempt, 0), 'error', coalesce(e.error, ''),
                                                     'recorded_at', e.recorded_at)
                                  ORDER BY e.recorded_at, e.at, e.delivery), '[]')
          FROM run_event AS e
         WHERE (e.tenant, e.run) = (r.tenant, r.id))
  FROM run AS r
  LEFT JOIN feed AS f ON (f.tenant, f.name) = (r.tenant, r.feed)
 WHERE r.tenant = current_tenant()
   AND $1 IN ('', r.feed)
   AND $2 IN ('', r.name)
 ORDER BY r.recorded_at DESC, r.id
 LIMIT $3;
