-- Decisions get the next numbers of their entries. A correction or a rejection settles its entry at once; what is sent through
-- ingest under its own id is settled by what becomes of it.
WITH decided AS (
    INSERT INTO quarantine_decision (tenant, entry, n, verdict, delivery, release, actor, reason, command, lane, seq, recorded_at)
    SELECT d.tenant, d.entry, 1 + (SELECT count(*) FROM quarantine_decision AS x WHERE (x.tenant, x.entry) = (d.tenant, d.entry)),
           d.verdict, d.delivery, d.release, d.actor, d.reason, d.command, nullif(d.lane, 0), nullif(d.seq, 0), d.recorded_at
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::uuid[], $5::int[], $6::text[], $7::text[], $8::uuid[], $9::int[], $10::bigint[],
                  $11::timestamptz[]) AS d (tenant, entry, verdict, delivery, release, actor, reason, command, lane, seq, recorded_at)
    RETURNING tenant, entry, verdict, release, recorded_at)
UPDATE quarantine AS q
   SET state = d.verdict, settled_at = d.recorded_at
  FROM decided AS d
 WHERE (q.tenant, q.id) = (d.tenant, d.entry)
   AND q.state = 'open'
   AND (d.verdict = 'rejected' OR d.release > 0);
