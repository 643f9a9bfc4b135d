-- Sightings of observations that are not there.
SELECT 'a sighting restates an observation that does not exist' AS what, c.tenant, c.delivery::text, c.observation::text, c.lane, c.seq, c.row
  FROM audit_v1.claim AS c
 WHERE c.sighting
   AND NOT EXISTS (SELECT
                     FROM audit_v1.observation AS o
                    WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation))
 ORDER BY c.lane, c.seq;
