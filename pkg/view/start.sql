INSERT INTO projection (generation, partition, topic_id, lane, next, publishes)
SELECT r.generation, r.partition, r.topic_id, r.lane, r.next, true
  FROM unnest($1::int[], $2::int[], $3::uuid[], $4::int[], $5::bigint[]) AS r (generation, partition, topic_id, lane, next)
 ORDER BY r.generation, r.partition
    ON CONFLICT (generation, partition) DO NOTHING;
