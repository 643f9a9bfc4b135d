SELECT (SELECT count(*) FROM audit_v1.outcome),
       (SELECT count(*) FROM audit_v1.receipt),
       (SELECT count(*) FROM audit_v1.outcome AS o WHERE o.accepted_lane IS NOT NULL),
       (SELECT count(*) FROM audit_v1.outcome AS o WHERE o.archived),
       (SELECT count(*) FROM audit_v1.claim),
       (SELECT count(*) FROM audit_v1.position),
       (SELECT count(*) FROM audit_v1.commit_journal),
       (SELECT count(*) FROM audit_v1.outbox),
       (SELECT count(*) FROM audit_v1.offer_change);
