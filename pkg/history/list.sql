-- The observations of the transaction's tenant, of one account or all (''), newest of each offer first. They are taken along
-- the key, offer by offer, and sorted for people afterwards: with a limit, history is not read to its end.
SELECT o.*
  FROM (SELECT o.*
          FROM observation_row AS o
         WHERE o.tenant = current_tenant()
           AND ($1 = '' OR o.account = $1)
         ORDER BY o.offer, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC
         LIMIT $2) AS o
 ORDER BY o.account, o.record, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC;
