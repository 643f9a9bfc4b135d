-- The events for topic $1 that the outbox still holds, in the order of their lanes.
SELECT x.lane, x.seq, x.key, x.event_id, x.event_type, x.body
  FROM audit_v1.outbox AS x
 WHERE x.kind = 'event'
   AND x.topic = $1
 ORDER BY x.lane, x.seq;
