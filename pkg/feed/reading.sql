-- A mapping version of a feed of the transaction's tenant.
SELECT m.spec, m.digest
  FROM mapping AS m
 WHERE (m.tenant, m.feed, m.version) = (current_tenant(), $1, $2);
