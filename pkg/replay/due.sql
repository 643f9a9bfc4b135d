-- The replays of which a page is due: it is their time, and no more than $1 seconds' worth of deliveries is on its way.
SELECT r.tenant, r.id, r.pages + 1, r.resumed
  FROM replay_run AS r
 WHERE r.state = 'running'
   AND r.due <= clock_timestamp()
   AND r.sent - r.answered <= r.rate::bigint * $1::int
 ORDER BY r.due
 LIMIT 100;
