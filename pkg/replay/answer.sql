-- Count the deliveries at places ($3, $4, $5) as answered in replays ($1, $2), which the caller has locked: each once, however many
-- references to it came. One behind the place where a replay that began again stands has its answer from a reference that was sent
-- before, and is not sent once more: it counts as sent here.
UPDATE replay_run AS r
   SET answered = r.answered + n.answered, sent = r.sent + n.ahead
  FROM (SELECT k.tenant, k.id, count(*) AS answered, count(*) FILTER (WHERE (p.lane, p."offset", p.item) > (k.lane, k."offset", k.item)) AS ahead
          FROM (SELECT DISTINCT p.tenant, p.id, p.lane, p."offset", p.item
                  FROM unnest($1::text[], $2::uuid[], $3::int[], $4::bigint[], $5::int[]) AS p (tenant, id, lane, "offset", item)) AS p
          JOIN replay_run AS k ON (k.tenant, k.id) = (p.tenant, p.id)
         WHERE NOT EXISTS (SELECT
                             FROM replay AS a
                            WHERE (a.tenant, a.of_run, a.origin_lane, a.origin_offset, a.origin_item) = (p.tenant, p.id, p.lane, p."offset", p.item))
         GROUP BY k.tenant, k.id) AS n
 WHERE (r.tenant, r.id) = (n.tenant, n.id);
