SELECT c.tenant, c.account, c.record, c.observation IS NULL, coalesce(c.strong, false), coalesce(c.ord, 0), coalesce(c.mapping_version, 0),
       c.content, coalesce(c.observation, '00000000-0000-0000-0000-000000000000'), c.deleted, array_to_string(c.flags, ','), c.item
  FROM current_offer AS c
 WHERE c.generation = $1;
