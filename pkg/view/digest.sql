SELECT c.tenant, c.account, c.record, c.strong, c.ord, c.mapping_version, c.content, c.observation, c.deleted, c.ambiguous
  FROM current_offer AS c
 WHERE c.generation = $1;
