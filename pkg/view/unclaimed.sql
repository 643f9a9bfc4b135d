-- At most $2 rows of generation $1 of offers of which history holds nothing.
SELECT c.tenant, c.account, c.record, 'extra'
  FROM current_offer AS c
 WHERE c.generation = $1
   AND NOT EXISTS (SELECT FROM observation AS o WHERE (o.tenant, o.offer) = (c.tenant, c.offer))
 ORDER BY c.tenant, c.offer
 LIMIT $2;
