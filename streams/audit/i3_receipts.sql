-- Receipts and accepted outcomes that do not say the same of a delivery, in place and fingerprint. An acceptance that the
-- janitor has passed may have no receipt any more, and another acceptance of the delivery may have one instead.
SELECT CASE WHEN r.delivery IS NULL THEN 'an accepted delivery has no receipt'
            WHEN o.delivery IS NULL THEN 'a receipt has no accepted outcome'
            ELSE 'receipt and accepted outcome differ' END AS what,
       coalesce(r.tenant, o.tenant) AS tenant, coalesce(r.delivery, o.delivery)::text AS delivery, coalesce(o.lane, r.lane) AS lane,
       coalesce(o."offset", r."offset") AS "offset", coalesce(o.item, r.item) AS item,
       CASE WHEN r.delivery IS NOT NULL AND o.delivery IS NOT NULL
            THEN format('the receipt has lane %s offset %s item %s %s:%s, the outcome %s:%s', r.lane, r."offset", r.item,
                        r.canonicalization, encode(r.fingerprint, 'hex'), o.canonicalization, encode(o.fingerprint, 'hex'))
            ELSE '' END AS detail
  FROM audit_v1.receipt AS r
  FULL JOIN (SELECT o.tenant, o.delivery, o.feed, o.lane, o."offset", o.item, o.canonicalization, o.fingerprint
               FROM audit_v1.outcome AS o
              WHERE o.outcome = 'accepted'
                AND o.delivery IS NOT NULL) AS o ON (o.tenant, o.delivery) = (r.tenant, r.delivery)
 WHERE (r.delivery, r.lane, r."offset", r.item, r.canonicalization, r.fingerprint)
       IS DISTINCT FROM (o.delivery, o.lane, o."offset", o.item, o.canonicalization, o.fingerprint)
   AND NOT EXISTS (SELECT
                     FROM audit_v1.receipt_horizon AS h
                    WHERE h.lane = o.lane
                      AND o.feed IS NOT NULL
                      AND o."offset" < h.expired
                      AND (r.delivery IS NULL OR (r.lane, r."offset", r.item) <> (o.lane, o."offset", o.item)))
 ORDER BY 2, 3;
