-- The observations of offers of the transaction's tenant, newest of each offer first: each offer is a range of the key.
SELECT o.tenant, o.offer, o.strong, o.ord, o.id, o.lane, o.seq, o.delivery, o.row, o.feed, o.account, o.record, o.revision_key,
       o.mapping_version, o.weak_identity, o.observed_ns, o.observed_at, o.retrieved_ns, o.recorded_at, o.content, o.mpn,
       o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin, o.quantity::text, o.unit, o.per::text, o.price::text,
       o.currency, o.price_breaks, o.moq::text, o.lead_time_days::text, o.deleted, o.run, o.held
  FROM observation AS o
 WHERE o.tenant = current_tenant()
   AND o.offer = ANY ($1::uuid[])
 ORDER BY o.account, o.record, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC
 LIMIT $2;
