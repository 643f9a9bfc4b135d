INSERT INTO gap (lane, command, from_offset, to_offset, reason, actor, why, artifact, recorded_at)
SELECT g.lane, $2, g.from_offset, g.to_offset, $5, $6, $7, nullif($8, ''), $9
  FROM unnest($1::int[], $3::bigint[], $4::bigint[]) AS g (lane, from_offset, to_offset);
