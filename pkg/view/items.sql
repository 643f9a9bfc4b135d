-- The items of the transaction's tenant in the active generation, each with its offers that are not deleted.
SELECT i.item, count(*), count(DISTINCT i.account)
  FROM (SELECT c.account, coalesce(c.item, item_fields(o.mpn, o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin)) AS item
          FROM current_offer AS c
          JOIN observation AS o ON (o.tenant, o.offer, o.strong, o.ord, o.id) = (c.tenant, c.offer, c.strong, c.ord, c.observation)
         WHERE (c.tenant, c.generation) = (current_tenant(), (SELECT g.active FROM generation_pointer AS g))
           AND NOT c.deleted) AS i
 WHERE ($1 = '' OR i.item[1] = $1)
 GROUP BY i.item
 ORDER BY i.item
 LIMIT $2;
