-- How many records of account ($1, $2) are for sale, by all that history holds, and of how many run $3 has claims.
SELECT (SELECT count(*)
          FROM (SELECT array_agg(l.id) AS lanes, array_agg(9223372036854775807) AS upto FROM lane AS l) AS a
         CROSS JOIN snapshot_record AS r
         CROSS JOIN LATERAL fold(r.tenant, r.offer, a.lanes, a.upto, NULL) AS f
         WHERE (r.tenant, r.account) = ($1, $2)
           AND NOT f.deleted),
       (SELECT count(*)
          FROM (SELECT o.offer FROM observation AS o WHERE (o.tenant, o.run) = ($1, $3)
                 UNION
                SELECT s.offer FROM sighting AS s WHERE (s.tenant, s.run) = ($1, $3)) AS claimed);
