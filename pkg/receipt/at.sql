-- The places of the attempts at positions of input topics, of the transaction's tenant.
SELECT o.lane, o."offset", o.item
  FROM unnest($1::uuid[], $2::int[], $3::bigint[]) AS p (topic_id, partition, "offset")
  JOIN lane AS l ON (l.kind, l.topic_id, l.partition) = ('input', p.topic_id, p.partition)
  JOIN outcome AS o ON (o.lane, o."offset") = (l.id, p."offset")
 WHERE o.tenant = current_tenant();
