-- All claims, those of one offer together, each with what the view of generation $1 shows of the offer: nulls where that is
-- nothing.
SELECT c.tenant, o.account, o.record, o.strong, o.ord, o.mapping_version, o.row_hash, o.id, o.deleted, o.revision_key, o.feed, o.delivery, o.run, o.held, o.recorded_at, o.until_ns, o.unresolved,
       ARRAY[coalesce(o.mpn, ''), coalesce(o.manufacturer, ''), coalesce(o.item_revision, ''), coalesce(o.packaging, ''), coalesce(o.condition, ''), coalesce(o.gtin, '')], c.lane, c.seq,
       c.delivery, c.run, c.held, c.recorded_at, c.due_ns, c.sighting,
       v.partition, v.strong, v.ord, v.mapping_version, v.content, v.winner, v.deleted, array_to_string(v.flags, ',') AS flags, v.item, v.revision, v.published_digest
  FROM audit_v1.claim AS c
  JOIN audit_v1.observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
  LEFT JOIN audit_v1.current_offer AS v ON (v.generation, v.tenant, v.offer) = ($1::int, c.tenant, c.offer)
 ORDER BY c.tenant, c.offer, c.lane, c.seq;
