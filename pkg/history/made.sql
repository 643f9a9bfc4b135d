-- The observations that deliveries were the first to state.
SELECT o.offer, o.id
  FROM unnest($2::uuid[]) AS k (delivery)
  JOIN delivery_reading AS a ON (a.tenant, a.delivery) = ($1, k.delivery)
 CROSS JOIN LATERAL (SELECT b.offer, b.id
                       FROM generate_series(a.first_seq, a.last_seq) AS n (seq)
                       JOIN observation AS b ON (b.lane, b.seq) = (a.lane, n.seq)
                     OFFSET 0) AS o
 ORDER BY o.id;
