-- How often deliveries of replay $1 of the transaction's tenant came to what.
SELECT o.outcome, coalesce(o.reason, ''), coalesce(o.detail, ''), count(*)
  FROM replay AS p
  JOIN outcome AS o ON (o.lane, o."offset") = (p.lane, p."offset")
 WHERE (p.tenant, p.of_run) = (current_tenant(), $1)
 GROUP BY o.outcome, o.reason, o.detail
 ORDER BY o.outcome, o.reason, o.detail;
