SELECT EXISTS (SELECT FROM observation AS o WHERE (o.tenant, o.offer) = ($1, $2) AND o.id = $3);
