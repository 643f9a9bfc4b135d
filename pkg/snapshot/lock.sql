-- One account; how it is locked is appended.
SELECT a.account
  FROM snapshot_account AS a
 WHERE (a.tenant, a.account) = ($1, $2)
