-- The next $13 outcomes behind place ($5, $6, $7) in stretches ($2, $3, $4) of lanes, each with whether it is of a delivery of tenant
-- $1 that is meant: of feed $8 and run $9 ('': of any), recorded from $10 to before $11 (null: no bound), with a claim of one of the
-- offers $12 (null: whatever it claims), not read under mapping version $14 (0: any), and
-- not answered in replay $15 (null: none of it is). A correction is read as the one that it is.
SELECT o.lane, o."offset", o.item, o.delivery, coalesce(p.release, 0), coalesce(p.row, 0),
       coalesce(o.tenant = $1
                AND o.outcome = 'accepted'
                AND o.mapping_version IS NOT NULL
                AND ($14::int = 0
                     OR o.mapping_version <> $14
                    AND NOT EXISTS (SELECT
                                      FROM decision AS d
                                     WHERE (d.tenant, d.delivery, d.mapping_version) = ($1, o.delivery, $14)
                                       AND d.kind = 'reading'))
                AND ($15::uuid IS NULL
                     OR NOT EXISTS (SELECT
                                      FROM replay AS a
                                     WHERE (a.tenant, a.of_run, a.origin_lane, a.origin_offset, a.origin_item) = ($1, $15, o.lane, o."offset", o.item)))
                AND ($8 = '' OR o.feed = $8)
                AND ($9 = '' OR o.run = $9)
                AND ($10::timestamptz IS NULL OR o.recorded_at >= $10)
                AND ($11::timestamptz IS NULL OR o.recorded_at < $11)
                AND ($12::uuid[] IS NULL
                     OR o.delivery IN (SELECT b.delivery FROM observation AS b WHERE b.tenant = $1 AND b.offer = ANY ($12)
                                        UNION ALL
                                       SELECT s.delivery FROM sighting AS s WHERE s.tenant = $1 AND s.offer = ANY ($12))), false) AS meant
  FROM (SELECT o.*
          FROM unnest($2::int[], $3::bigint[], $4::bigint[]) AS b (lane, first, upto)
         CROSS JOIN LATERAL (SELECT o.lane, o."offset", o.item, o.tenant, o.delivery, o.outcome, o.mapping_version, o.feed, o.run, o.recorded_at
                               FROM outcome AS o
                              WHERE o.lane = b.lane
                                AND o."offset" >= b.first
                                AND o."offset" < b.upto
                                AND (o.lane, o."offset", o.item) > ($5::int, $6::bigint, $7::int)
                              ORDER BY o."offset", o.item
                              LIMIT $13) AS o
         WHERE b.lane >= $5
         ORDER BY o.lane, o."offset", o.item
         LIMIT $13) AS o
  LEFT JOIN replay AS p ON (p.tenant, p.lane, p."offset") = (o.tenant, o.lane, o."offset")
 ORDER BY o.lane, o."offset", o.item;
