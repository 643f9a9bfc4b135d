-- Where the evidence of the event at a place is: the object of the tenant that spans the place.
SELECT l.topic, a.object, a.key_id, o.retrieved_ns, coalesce(o.feed, '')
  FROM outcome AS o
  JOIN lane AS l ON l.id = o.lane
 CROSS JOIN LATERAL (SELECT a.object, a.key_id, a.state
                       FROM artifact AS a
                      WHERE (a.tenant, a.topic_id, a.partition) = (o.tenant, l.topic_id, l.partition)
                        AND a.first <= o."offset"
                      ORDER BY a.first DESC
                      LIMIT 1) AS a
 WHERE (o.lane, o."offset", o.item) = ($2, $3, $4)
   AND o.tenant = $1
   AND o.archived
   AND a.state = 'stored';
