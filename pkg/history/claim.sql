-- Rows come sorted by key, so that two workers take the locks of common keys in one order.
INSERT INTO observation (tenant, offer, strong, ord, id, lane, seq, delivery, row, feed, account, record, revision_key,
                         mapping_version, weak_identity, observed_ns, observed_at, retrieved_ns, recorded_at, content, mpn,
                         manufacturer, item_revision, packaging, condition, gtin, quantity, unit, per, price, currency,
                         price_breaks, moq, order_multiple, lead_time_days, stock, valid_from, valid_until, deleted, run, held,
                         due_ns, until_ns, unresolved)
SELECT r.tenant, r.offer, r.strong, r.ord, r.id, r.lane, r.seq, r.delivery, r.row, r.feed, r.account, r.record, r.revision_key,
       r.mapping_version, r.weak_identity, r.observed_ns, r.observed_at, r.retrieved_ns, r.recorded_at, r.content,
       nullif(r.mpn, ''), nullif(r.manufacturer, ''), nullif(r.item_revision, ''), nullif(r.packaging, ''),
       nullif(r.condition, ''), nullif(r.gtin, ''), nullif(r.quantity, '')::numeric, nullif(r.unit, ''),
       nullif(r.per, '')::numeric, nullif(r.price, '')::numeric, nullif(r.currency, ''), nullif(r.price_breaks, '')::jsonb,
       nullif(r.moq, '')::numeric, nullif(r.order_multiple, '')::numeric, nullif(r.lead_time_days, '')::numeric,
       nullif(r.stock, '')::jsonb, nullif(r.valid_from, ''), nullif(r.valid_until, ''), r.deleted, r.run, r.held,
       r.due_ns, r.until_ns, r.unresolved
  FROM unnest($1::text[], $2::uuid[], $3::bool[], $4::bigint[], $5::uuid[], $6::int[], $7::bigint[], $8::uuid[], $9::int[],
              $10::text[], $11::text[], $12::text[], $13::text[], $14::int[], $15::bool[], $16::bigint[], $17::text[],
              $18::bigint[], $19::timestamptz[], $20::bytea[], $21::text[], $22::text[], $23::text[], $24::text[], $25::text[],
              $26::text[], $27::text[], $28::text[], $29::text[], $30::text[], $31::text[], $32::text[], $33::text[],
              $34::text[], $35::text[], $36::text[], $37::text[], $38::text[], $39::bool[], $40::uuid[], $41::bool[],
              $42::bigint[], $43::bigint[], $44::bool[])
       AS r (tenant, offer, strong, ord, id, lane, seq, delivery, row, feed, account, record, revision_key, mapping_version,
             weak_identity, observed_ns, observed_at, retrieved_ns, recorded_at, content, mpn, manufacturer, item_revision,
             packaging, condition, gtin, quantity, unit, per, price, currency, price_breaks, moq, order_multiple, lead_time_days, stock,
             valid_from, valid_until, deleted, run, held, due_ns, until_ns, unresolved)
    ON CONFLICT (tenant, offer, strong, ord, id) DO NOTHING;
