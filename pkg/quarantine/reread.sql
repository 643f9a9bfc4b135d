-- Resolve the open rows of deliveries ($1, $2) that a later reading took: all but those that it rejects ($3, $4, $5).
UPDATE quarantine AS q
   SET state = 'resolved', resolved_by = q.delivery, settled_at = clock_timestamp()
  FROM unnest($1::text[], $2::uuid[]) AS k (tenant, delivery)
 WHERE (q.tenant, q.delivery) = (k.tenant, k.delivery)
   AND q.state = 'open'
   AND q.row > 0
   AND (q.tenant, q.delivery, q.row) NOT IN (SELECT r.tenant, r.delivery, r.row
                                               FROM unnest($3::text[], $4::uuid[], $5::int[]) AS r (tenant, delivery, row));
