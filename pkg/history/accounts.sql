-- The transaction's tenant, and the accounts that its feeds read from: a feed keeps its account for ever.
SELECT coalesce(current_tenant(), ''),
       ARRAY(SELECT DISTINCT f.account FROM feed AS f WHERE f.tenant = current_tenant());
