-- How far the view of an offer ($1, of the transaction's tenant) has come in the active generation.
SELECT p.lanes, p.applied
  FROM generation_pointer AS g
  JOIN current_offer AS c ON (c.tenant, c.generation, c.offer) = (current_tenant(), g.active, $1::uuid)
  JOIN projection AS p ON (p.generation, p.partition) = (c.generation, c.partition);
