SELECT max(d.collected) FROM decision AS d WHERE (d.tenant, d.subject) = ($1, $2);
