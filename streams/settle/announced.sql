-- What the relay has not published of the numbers that the projector's lanes have given.
SELECT coalesce(sum(p.sequence - coalesce(r.published_seq, 0)), 0)::bigint
  FROM audit_v1.position AS p
  LEFT JOIN audit_v1.relay AS r ON r.lane = p.lane
 WHERE p.kind = 'projector';
