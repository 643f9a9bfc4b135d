-- Of these objects, those that no row says are stored.
SELECT u.name
  FROM unnest($1::text[], $2::text[], $3::uuid[], $4::int[], $5::bigint[]) AS u (name, tenant, topic_id, partition, first)
 WHERE u.name = ANY ($6::text[])
   AND NOT EXISTS (SELECT
                     FROM artifact AS a
                    WHERE (a.tenant, a.topic_id, a.partition, a.first, a.object) = (u.tenant, u.topic_id, u.partition, u.first, u.name)
                      AND a.state = 'stored')
 ORDER BY u.name;
