-- Duplicates and mismatches that do not stand to the first acceptance of their delivery as they say.
SELECT x.what, x.tenant, coalesce(x.delivery::text, '') AS delivery, x.lane, x."offset", x.item,
       format('%s %s, points at lane %s offset %s item %s', x.outcome, x.reason, x.accepted_lane, x.accepted_offset, x.accepted_item) AS detail
  FROM (SELECT o.tenant, o.delivery, o.lane, o."offset", o.item, o.outcome, o.reason, o.accepted_lane, o.accepted_offset, o.accepted_item,
               CASE WHEN (o.outcome IN ('duplicate', 'reread') OR coalesce(o.reason, '') = 'replay_payload_mismatch') <> (o.accepted_lane IS NOT NULL)
                    THEN 'a repeat points at no acceptance, or what is none points at one'
                    WHEN o.accepted_lane IS NULL
                    THEN NULL
                    WHEN f.outcome IS DISTINCT FROM 'accepted' OR (f.tenant, f.delivery) IS DISTINCT FROM (o.tenant, o.delivery)
                    THEN 'a repeat points at what is no acceptance of its delivery'
                    WHEN (o.outcome IN ('duplicate', 'reread')) <> ((f.canonicalization, f.fingerprint) = (o.canonicalization, o.fingerprint))
                    THEN 'a duplicate has another fingerprint than the first, or a mismatch the same'
               END AS what
          FROM audit_v1.outcome AS o
          LEFT JOIN audit_v1.outcome AS f ON (f.lane, f."offset", f.item) = (o.accepted_lane, o.accepted_offset, o.accepted_item)
         WHERE o.outcome IN ('duplicate', 'quarantined', 'reread')) AS x
 WHERE x.what IS NOT NULL
 ORDER BY x.lane, x."offset", x.item;
