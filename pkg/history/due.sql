-- Of each of the tenants ($1) the latest moment that has come at which claims begin to count, or end, and of which no decision
-- says so yet. The clock is the database's, which times every commit.
SELECT t.tenant, max(m.ns)
  FROM unnest($1::text[]) AS t (tenant)
 CROSS JOIN LATERAL (SELECT coalesce(max(d.moment), -9223372036854775808), (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint
                       FROM decision AS d
                      WHERE d.tenant = t.tenant
                        AND d.moment IS NOT NULL) AS p (told, now)
 CROSS JOIN LATERAL ((SELECT o.due_ns FROM observation AS o
                       WHERE o.tenant = t.tenant AND o.due_ns > p.told AND o.due_ns <= p.now ORDER BY o.due_ns DESC LIMIT 1)
                     UNION ALL
                     (SELECT o.until_ns FROM observation AS o
                       WHERE o.tenant = t.tenant AND o.until_ns > p.told AND o.until_ns <= p.now ORDER BY o.until_ns DESC LIMIT 1)
                     UNION ALL
                     (SELECT s.due_ns FROM sighting AS s
                       WHERE s.tenant = t.tenant AND s.due_ns > p.told AND s.due_ns <= p.now ORDER BY s.due_ns DESC LIMIT 1)) AS m (ns)
 GROUP BY t.tenant;
