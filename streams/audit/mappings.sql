SELECT m.tenant, m.feed, m.version, m.connector, m.account, m.digest, m.spec
  FROM audit_v1.mapping AS m;
