-- How many records of account ($1, $2) are for sale, by what history holds now, and of how many run $3 has claims.
SELECT (SELECT count(*)
          FROM snapshot_record AS r
         CROSS JOIN LATERAL (
             SELECT o.deleted
               FROM observation AS o
              CROSS JOIN LATERAL (
                  SELECT CASE WHEN o.run IS NULL THEN 2
                              ELSE greatest(coalesce((SELECT d.standing
                                                        FROM decision AS d
                                                       WHERE (d.tenant, d.subject) = (o.tenant, o.run)
                                                       ORDER BY d.n DESC
                                                       LIMIT 1), CASE WHEN o.held THEN 0 ELSE 1 END),
                                            (SELECT max(CASE WHEN s.run IS NULL THEN 2
                                                             ELSE coalesce((SELECT d.standing
                                                                              FROM decision AS d
                                                                             WHERE (d.tenant, d.subject) = (s.tenant, s.run)
                                                                             ORDER BY d.n DESC
                                                                             LIMIT 1), CASE WHEN s.held THEN 0 ELSE 1 END) END)
                                               FROM sighting AS s
                                              WHERE (s.tenant, s.offer, s.observation) = (o.tenant, o.offer, o.id))) END AS standing) AS c
              WHERE (o.tenant, o.offer) = (r.tenant, r.offer)
                AND c.standing > 0
                AND NOT EXISTS (SELECT
                                  FROM decision AS d
                                 WHERE (d.tenant, d.subject) = (o.tenant, o.id)
                                   AND d.standing = 0
                                   AND NOT EXISTS (SELECT
                                                     FROM decision AS later
                                                    WHERE (later.tenant, later.subject) = (d.tenant, d.subject)
                                                      AND later.n > d.n))
                AND (o.mapping_version > 0
                     OR NOT EXISTS (SELECT
                                      FROM decision AS d
                                     WHERE (d.tenant, d.account) = (o.tenant, o.account)
                                       AND (d.as_of, d.subject) > (o.ord, o.run)
                                       AND d.as_of IS NOT NULL
                                       AND NOT EXISTS (SELECT
                                                         FROM decision AS later
                                                        WHERE (later.tenant, later.subject) = (d.tenant, d.subject)
                                                          AND later.n > d.n)))
              ORDER BY o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC
              LIMIT 1) AS w
         WHERE (r.tenant, r.account) = ($1, $2)
           AND NOT w.deleted),
       (SELECT count(*)
          FROM (SELECT o.offer FROM observation AS o WHERE (o.tenant, o.run) = ($1, $3)
                 UNION
                SELECT s.offer FROM sighting AS s WHERE (s.tenant, s.run) = ($1, $3)) AS claimed);
