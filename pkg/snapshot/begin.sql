WITH account AS (
    INSERT INTO snapshot_account (tenant, account) VALUES ($1, $2)
        ON CONFLICT (tenant, account) DO NOTHING)
INSERT INTO snapshot_record (tenant, account, offer, record)
SELECT DISTINCT o.tenant, o.account, o.offer, o.record
  FROM observation AS o
 WHERE o.tenant = $1
   AND o.account = $2
    ON CONFLICT (tenant, account, offer) DO NOTHING;
