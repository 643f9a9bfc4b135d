-- Resolve what earlier readings of deliveries ($1, $2) had set aside, which a later one took: rows, all but those that it rejects
-- ($3, $4, $5), and whole ones that could not be read. What contradicts a delivery still does.
UPDATE quarantine AS q
   SET state = 'resolved', resolved_by = q.delivery, settled_at = clock_timestamp()
  FROM unnest($1::text[], $2::uuid[]) AS k (tenant, delivery)
 WHERE (q.tenant, q.delivery) = (k.tenant, k.delivery)
   AND q.state = 'open'
   AND q.reason <> 'replay_payload_mismatch'
   AND (q.tenant, q.delivery, q.row) NOT IN (SELECT r.tenant, r.delivery, r.row
                                               FROM unnest($3::text[], $4::uuid[], $5::int[]) AS r (tenant, delivery, row));
