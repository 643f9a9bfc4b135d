-- Bring the history of offers, and that their accounts have had them: of those that deliveries ($1) have claims of in any reading, and of those named ($2).
WITH concerned AS (
    SELECT x.offer
      FROM delivery_reading AS a
     CROSS JOIN LATERAL (SELECT o.offer FROM public.observation AS o WHERE o.lane = a.lane AND o.seq BETWEEN a.first_seq AND a.last_seq
                          UNION ALL
                         SELECT s.offer FROM public.sighting AS s WHERE s.lane = a.lane AND s.seq BETWEEN a.first_seq AND a.last_seq
                         OFFSET 0) AS x
     WHERE a.tenant = current_tenant()
       AND a.delivery = ANY ($1::uuid[])
     UNION
    SELECT n.offer FROM unnest($2::uuid[]) AS n (offer)),
fresh AS (
    INSERT INTO pg_temp.brought (offer) SELECT c.offer FROM concerned AS c ON CONFLICT (offer) DO NOTHING
    RETURNING offer),
recorded AS (
    INSERT INTO pg_temp.snapshot_record
    SELECT r.*
      FROM fresh AS f
     CROSS JOIN LATERAL (SELECT r.* FROM snapshot_account AS a JOIN public.snapshot_record AS r ON (r.tenant, r.account) = (a.tenant, a.account)
                          WHERE a.tenant = current_tenant() AND r.offer = f.offer OFFSET 0) AS r),
observed AS (
    INSERT INTO pg_temp.observation
    SELECT o.*
      FROM fresh AS f
     CROSS JOIN LATERAL (SELECT o.* FROM public.observation AS o WHERE (o.tenant, o.offer) = (current_tenant(), f.offer) OFFSET 0) AS o)
INSERT INTO pg_temp.sighting
SELECT s.*
  FROM fresh AS f
 CROSS JOIN LATERAL (SELECT s.* FROM public.sighting AS s WHERE (s.tenant, s.offer) = (current_tenant(), f.offer) OFFSET 0) AS s;
