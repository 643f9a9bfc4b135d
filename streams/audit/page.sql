-- The number of the last of the first $3 claims of lane $1 above number $2; null where there is none.
SELECT max(p.seq)
  FROM (SELECT c.seq
          FROM audit_v1.claim AS c
         WHERE c.lane = $1::int
           AND c.seq > $2::bigint
         ORDER BY c.seq
         LIMIT $3) AS p;
