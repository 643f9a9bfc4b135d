SELECT EXISTS (SELECT
                 FROM observation AS o
                WHERE (o.tenant, o.offer) = ($1, $2)
                  AND item_fields(o.mpn, o.manufacturer, o.item_revision, o.packaging, o.condition, o.gtin) = $3::text[]);
