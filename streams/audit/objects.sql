-- The $6 archived objects after ($1, $2, $3, $4, $5) in the order of the table's key.
SELECT a.tenant, a.topic_id, a.partition, a.first, a.name, a.last, a.key_id, a.state, a.offsets, a.items, a.sha256, a.lengths
  FROM audit_v1.artifact_object AS a
 WHERE (a.tenant, a.topic_id, a.partition, a.first, a.name) > ($1::text, $2::uuid, $3::int, $4::bigint, $5::text)
 ORDER BY a.tenant, a.topic_id, a.partition, a.first, a.name
 LIMIT $6;
