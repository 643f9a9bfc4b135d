-- The place of the acceptance whose payload delivery $1 of the transaction's tenant has stated number $3 of lane $2 with: its own, or that
-- which was read again under another mapping version. None where its receipt has expired: the key may have been taken once more since.
SELECT coalesce(o.accepted_lane, o.lane), coalesce(o.accepted_offset, o."offset"), coalesce(o.accepted_item, o.item)
  FROM (SELECT r.lane, r."offset", r.item
          FROM receipt AS r
         WHERE (r.tenant, r.delivery) = (current_tenant(), $1)
         UNION ALL
        SELECT o.lane, o."offset", o.item
          FROM outcome AS o
         WHERE (o.tenant, o.delivery) = (current_tenant(), $1)
           AND o.outcome <> 'accepted') AS p
  JOIN outcome AS o ON (o.lane, o."offset", o.item) = (p.lane, p."offset", p.item)
 WHERE o.lane = $2
   AND o.outcome IN ('accepted', 'reread')
   AND $3::bigint BETWEEN o.first_seq AND o.last_seq;
