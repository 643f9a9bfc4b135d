-- The records of accounts ($4, $5) that the numbers $2 < seq <= $3 of lanes $1 claim for the first time.
INSERT INTO snapshot_record (tenant, account, offer, record)
SELECT DISTINCT o.tenant, o.account, o.offer, o.record
  FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS r (lane, after, last)
  JOIN observation AS o ON o.lane = r.lane AND o.seq > r.after AND o.seq <= r.last
 WHERE (o.tenant, o.account) IN (SELECT a.tenant, a.account FROM unnest($4::text[], $5::text[]) AS a (tenant, account))
 ORDER BY o.tenant, o.account, o.offer
    ON CONFLICT (tenant, account, offer) DO NOTHING;
