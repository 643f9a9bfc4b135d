-- The observations of the transaction's tenant, of one account or all (''), newest of each offer first. They are taken along
-- the key, offer by offer, and sorted for people afterwards: with a limit, history is not read to its end.
SELECT o.tenant, o.offer, o.strong, o.ord, o.id, o.lane, o.seq, o.delivery, o.row, o.feed, o.account, o.record, o.revision_key,
       o.mapping_version, o.weak_identity, o.observed_ns, o.observed_at, o.retrieved_ns, o.recorded_at, o.content, o.mpn,
       o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin, o.quantity::text, o.unit, o.per::text, o.price::text,
       o.currency, o.price_breaks, o.moq::text, o.lead_time_days::text, o.deleted, o.run, o.held
  FROM (SELECT o.*
          FROM observation AS o
         WHERE o.tenant = current_tenant()
           AND ($1 = '' OR o.account = $1)
         ORDER BY o.offer, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC
         LIMIT $2) AS o
 ORDER BY o.account, o.record, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC;
