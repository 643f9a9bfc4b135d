-- Objects and keys that are gone on purpose, and no receipt says so.
SELECT 'an object is not stored any more, and no receipt says why' AS what, a.tenant, a.name AS object,
       format('its state is %s', a.state) AS detail
  FROM audit_v1.artifact_object AS a
  LEFT JOIN audit_v1.pruning AS p ON (p.tenant, p.id) = (a.tenant, a.pruning)
 WHERE a.state <> 'stored'
   AND p.kind IS DISTINCT FROM CASE a.state WHEN 'shredded' THEN 'keys' ELSE 'artifacts' END
 UNION ALL
SELECT 'a key is destroyed, and no receipt says why', k.tenant, '', format('key %s', k.key_id)
  FROM audit_v1.tenant_key AS k
  LEFT JOIN audit_v1.pruning AS p ON (p.tenant, p.id) = (k.tenant, k.pruning)
 WHERE k.destroyed_at IS NOT NULL
   AND p.kind IS DISTINCT FROM 'keys'
 ORDER BY 2, 3, 4;
