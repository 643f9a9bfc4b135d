UPDATE quarantine AS q
   SET state = 'resolved', resolved_by = k.delivery, settled_at = clock_timestamp()
  FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS k (tenant, id, delivery)
 WHERE (q.tenant, q.id) = (k.tenant, k.id)
   AND q.state = 'open';
