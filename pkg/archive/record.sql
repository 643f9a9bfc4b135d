-- One row for each object that this transaction refers to. Entries arrive flat, each with the number of its object; their
-- order within an object is kept.
WITH entry AS (
  SELECT e.object,
         array_agg(e.at ORDER BY e.n)     AS offsets,
         array_agg(e.item ORDER BY e.n)   AS items,
         array_agg(e.sum ORDER BY e.n)    AS sums,
         array_agg(e.length ORDER BY e.n) AS lengths
    FROM unnest($9::int[], $10::bigint[], $11::int[], $12::bytea[], $13::bigint[])
         WITH ORDINALITY AS e (object, at, item, sum, length, n)
   GROUP BY e.object
)
INSERT INTO artifact (tenant, object, topic_id, partition, first, last, key_id, length, state, offsets, items, sums, lengths)
SELECT o.tenant, o.object, o.topic_id, o.partition, o.first, o.last, o.key_id, o.length, 'stored',
       entry.offsets, entry.items, entry.sums, entry.lengths
  FROM unnest($1::text[], $2::text[], $3::uuid[], $4::int[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[])
       WITH ORDINALITY AS o (tenant, object, topic_id, partition, first, last, key_id, length, n)
  JOIN entry ON entry.object = o.n
 ORDER BY o.tenant, o.object
