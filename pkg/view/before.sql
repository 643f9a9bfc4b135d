-- The generation that was active before the last switch.
SELECT d.before
  FROM generation_decision AS d
 WHERE d.action IN ('switch', 'rollback')
 ORDER BY d.n DESC
 LIMIT 1;
