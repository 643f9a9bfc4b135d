-- The other feed that brings whole catalogues of an account.
SELECT name FROM feed WHERE (tenant, account) = ($1, $2) AND name <> $3 AND spec ->> 'mode' = 'snapshot';
