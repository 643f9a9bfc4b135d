-- Whoever holds the head writes the next tick; the others leave it to them.
SELECT h.n, h.at FROM tick_head AS h FOR UPDATE SKIP LOCKED;
