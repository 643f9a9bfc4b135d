-- Let a halted lane go on at $2. What it passes over is an interval of the journal like every other, without a number.
WITH adopted AS (
    UPDATE lane AS l
       SET next = $2, starts = 0, tries = 0, halt_reason = NULL, halt_from = NULL, halt_to = NULL, halted_at = NULL
      FROM lane AS before
     WHERE l.id = $1
       AND before.id = l.id
    RETURNING l.id, before.next AS was, l.next, l.sequence)
INSERT INTO commit_journal (lane, from_offset, to_offset, from_seq, to_seq, worker, recorded_at)
SELECT a.id, a.was, a.next, a.sequence, a.sequence, 'adopted', $3
  FROM adopted AS a
 WHERE a.next > a.was;
