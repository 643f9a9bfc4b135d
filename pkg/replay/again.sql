-- Have the replays begin again that wait for answers, some of which will not come: what is not answered is sent once more.
UPDATE replay_run AS r
   SET again = true, resumed = r.resumed + 1, sent = r.answered, lane = 0, "offset" = 0, item = 0, due = least(r.due, clock_timestamp()),
       state = CASE WHEN r.state = 'sent' THEN 'running' ELSE r.state END
 WHERE r.state IN ('running', 'paused', 'sent')
   AND r.sent > r.answered;
