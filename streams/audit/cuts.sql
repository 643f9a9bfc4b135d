-- What lane $1 goes on without after its log was cut off, as stretches that do not touch.
SELECT min(g.from_offset), max(g.to_offset)
  FROM (SELECT g.from_offset, g.to_offset, count(*) FILTER (WHERE g.first) OVER (ORDER BY g.from_offset, g.to_offset, g.command) AS stretch
          FROM (SELECT g.from_offset, g.to_offset, g.command,
                       g.from_offset > coalesce(max(g.to_offset) OVER (ORDER BY g.from_offset, g.to_offset, g.command
                                                                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1) AS first
                  FROM audit_v1.gap AS g
                 WHERE g.lane = $1
                   AND g.reason = 'log_truncated') AS g) AS g
 GROUP BY g.stretch
 ORDER BY 1;
