-- How far the view of an offer ($1, of the transaction's tenant) has come in the active generation.
SELECT p.lanes, p.applied
  FROM current_offer AS c
  JOIN projection AS p ON (p.generation, p.partition) = (c.generation, c.partition)
 WHERE (c.tenant, c.generation, c.offer) = (current_tenant(), (SELECT g.active FROM generation_pointer AS g), $1::uuid);
