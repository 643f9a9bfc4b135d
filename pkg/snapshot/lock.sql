SELECT a.account FROM snapshot_account AS a WHERE (a.tenant, a.account) IN (SELECT k.tenant, k.account FROM unnest($1::text[], $2::text[]) AS k (tenant, account)) ORDER BY a.tenant, a.account
