-- What the offers that were brought show by the numbers ($1, $2) of lanes, and what by lane $3 besides: each as whether it is deleted
-- and what it says, nulls where no claim counts.
SELECT n.account, n.record, was.deleted, was.says, will.deleted, will.says
  FROM pg_temp.brought AS b
 CROSS JOIN LATERAL (SELECT o.account, o.record FROM pg_temp.observation AS o WHERE (o.tenant, o.offer) = (current_tenant(), b.offer) LIMIT 1) AS n
  LEFT JOIN LATERAL (
      SELECT f.deleted, jsonb_strip_nulls(jsonb_build_object(
                 'mpn', o.mpn, 'manufacturer', o.manufacturer, 'revision', o.item_revision, 'packaging', o.packaging, 'condition', o.condition,
                 'gtin', o.gtin, 'quantity', o.quantity::text, 'unit', o.unit, 'per', o.per::text, 'price', o.price::text, 'currency', o.currency,
                 'price_breaks', o.price_breaks, 'moq', o.moq::text, 'order_multiple', o.order_multiple::text,
                 'lead_time_days', o.lead_time_days::text, 'stock', o.stock, 'valid_from', o.valid_from, 'valid_until', o.valid_until)) AS says
        FROM fold(current_tenant(), b.offer, $1::int[], $2::bigint[], NULL) AS f
        JOIN pg_temp.observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (current_tenant(), b.offer, f.strong, f.ord, f.observation)) AS was ON true
  LEFT JOIN LATERAL (
      SELECT f.deleted, jsonb_strip_nulls(jsonb_build_object(
                 'mpn', o.mpn, 'manufacturer', o.manufacturer, 'revision', o.item_revision, 'packaging', o.packaging, 'condition', o.condition,
                 'gtin', o.gtin, 'quantity', o.quantity::text, 'unit', o.unit, 'per', o.per::text, 'price', o.price::text, 'currency', o.currency,
                 'price_breaks', o.price_breaks, 'moq', o.moq::text, 'order_multiple', o.order_multiple::text,
                 'lead_time_days', o.lead_time_days::text, 'stock', o.stock, 'valid_from', o.valid_from, 'valid_until', o.valid_until)) AS says
        FROM fold(current_tenant(), b.offer, $1::int[] || $3::int, $2::bigint[] || 9223372036854775807, NULL) AS f
        JOIN pg_temp.observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (current_tenant(), b.offer, f.strong, f.ord, f.observation)) AS will ON true
 ORDER BY n.account, n.record;
