-- The claims $2 < seq <= $3 of lane $1 in the order of their numbers, each with the observation that it states.
SELECT o.tenant, o.offer, o.strong, o.ord, o.id, o.lane, o.seq, o.delivery, o.row, o.feed, o.account, o.record, o.revision_key,
       o.mapping_version, o.weak_identity, o.observed_ns, o.observed_at, o.retrieved_ns, o.recorded_at, o.row_hash, o.mpn,
       o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin, o.quantity::text, o.unit, o.per::text, o.price::text,
       o.currency, o.price_breaks, o.moq::text, o.order_multiple::text, o.lead_time_days::text, o.stock, o.valid_from, o.valid_until, o.deleted,
       o.run, o.held, o.due_ns, o.unresolved,
       c.sighting, c.lane, c.seq, c.delivery, c.row, c.weak_identity, c.observed_ns, c.observed_at, c.retrieved_ns, c.recorded_at, c.run, c.held
  FROM audit_v1.claim AS c
  JOIN audit_v1.observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
 WHERE c.lane = $1::int
   AND c.seq > $2::bigint
   AND c.seq <= $3::bigint
 ORDER BY c.seq;
