WITH moved AS (
    UPDATE lane AS l
       SET next = s.upto, sequence = s.seq, clock = s.at, starts = 0, tries = 0
      FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[]) AS s (id, expected, upto, seq, at),
           lane AS before
     WHERE (l.id, l.next) = (s.id, s.expected)
       AND before.id = l.id
    RETURNING l.id, s.expected, s.upto, before.sequence AS from_seq, s.seq, s.at)
INSERT INTO commit_journal (lane, from_offset, to_offset, from_seq, to_seq, worker, recorded_at)
SELECT m.id, m.expected, m.upto, m.from_seq, m.seq, $6, m.at
  FROM moved AS m;
