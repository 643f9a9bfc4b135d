-- The first $4 outcomes of lane $1 with offsets of [$2, $3), those of one record together, each with the digest of its entry
-- in the archive. A refused copy of a payload that is archived already has no entry of its own: another of its delivery and
-- fingerprint has. The evidence of a reading is that of the acceptance.
WITH entry AS (
    SELECT a.tenant, a."offset", a.item, a.sha256
      FROM audit_v1.artifact AS a
      JOIN audit_v1.position AS p ON (p.topic_id, p.partition) = (a.topic_id, a.partition)
     WHERE p.lane = $1::int
       AND a.first < $3::bigint
       AND a.last >= $2::bigint)
SELECT o."offset", o.item, o.tenant, o.delivery, coalesce(o.feed, '') AS feed, coalesce(o.event_source, '') AS event_source,
       coalesce(o.event_id, '') AS event_id, coalesce(o.event_type, '') AS event_type, coalesce(o.declared, '') AS declared,
       o.outcome,
       coalesce(o.canonicalization, '') AS canonicalization, o.fingerprint, o.archived, coalesce(o.artifact_id, '') AS artifact_id,
       coalesce(o.mapping_version, 0) AS mapping_version, o.rows, o.saved, o.duplicate, o.old, o.ambiguous_order, o.rejected, o.rejections, o.recorded_at,
       coalesce(o.first_seq, 0) AS first_seq, coalesce(o.last_seq, 0) AS last_seq, e.sha256, coalesce(p.release, 0) AS release,
       coalesce(p.row, 0) AS release_row, p.lane IS NOT NULL AS replayed,
       CASE WHEN o.outcome = 'reread' THEN coalesce(f.artifact_id, '') ELSE coalesce(o.artifact_id, '') END AS evidence,
       CASE WHEN o.outcome = 'reread' THEN f."offset" ELSE o."offset" END AS evidence_offset,
       CASE WHEN o.outcome = 'reread' THEN f.item ELSE o.item END AS evidence_item,
       o.archived OR o.outcome = 'quarantined' AND EXISTS (SELECT
                                                             FROM audit_v1.outcome AS other
                                                            WHERE (other.tenant, other.delivery) = (o.tenant, o.delivery)
                                                              AND other.fingerprint = o.fingerprint
                                                              AND other.archived
                                                              AND other.outcome <> 'accepted') AS kept
  FROM audit_v1.outcome AS o
  LEFT JOIN audit_v1.replay AS p ON (p.tenant, p.lane, p."offset") = (o.tenant, o.lane, o."offset")
  LEFT JOIN audit_v1.outcome AS f ON o.outcome = 'reread' AND (f.lane, f."offset", f.item) = (o.accepted_lane, o.accepted_offset, o.accepted_item)
  LEFT JOIN entry AS e ON o.archived AND (e.tenant, e."offset", e.item) = (o.tenant, o."offset", o.item)
 WHERE o.lane = $1
   AND o."offset" >= $2
   AND o."offset" < $3
 ORDER BY o."offset"
 FETCH FIRST ($4::int) ROWS WITH TIES;
