-- The observations of offers of the transaction's tenant, newest of each offer first: each offer is a range of the key.
SELECT o.*
  FROM observation_row AS o
 WHERE o.tenant = current_tenant()
   AND o.offer = ANY ($1::uuid[])
 ORDER BY o.account, o.record, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC
 LIMIT $2;
