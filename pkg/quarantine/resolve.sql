UPDATE quarantine AS q
   SET state = 'resolved', resolved_by = q.delivery, settled_at = clock_timestamp()
  FROM unnest($1::text[], $2::uuid[]) AS k (tenant, delivery)
 WHERE (q.tenant, q.delivery) = (k.tenant, k.delivery)
   AND q.state = 'open'
   AND q.row = 0
   AND q.reason <> 'replay_payload_mismatch';
