SELECT max(d.moment) FROM decision AS d WHERE d.tenant = $1 AND d.moment IS NOT NULL;
