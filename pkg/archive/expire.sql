-- Note that objects of tenant $1 are no longer needed, on the word of receipt $2.
UPDATE artifact AS a
   SET state = 'expired', pruning = $2
  FROM unnest($3::uuid[], $4::int[], $5::bigint[], $6::text[]) AS x (topic_id, partition, first, object)
 WHERE (a.tenant, a.topic_id, a.partition, a.first, a.object) = ($1, x.topic_id, x.partition, x.first, x.object)
   AND a.state = 'stored';
