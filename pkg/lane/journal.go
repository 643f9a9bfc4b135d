package lane

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed merge_journal.sql
var mergeJournalSQL string

// mergeRows is how many intervals of a lane one call of MergeJournal puts together.
const mergeRows = 10_000

// MergeJournal makes one interval of the journal's intervals that follow each other, were recorded before the mark and are
// published, and returns how many are gone: 0 when nothing is left to merge. The journal still tiles [start, next), in
// fewer rows; which worker had stored a merged interval is forgotten. It runs as the janitor.
func MergeJournal(ctx context.Context, tx pgx.Tx, mark time.Time) (gone int, err error) {
	if err := tx.QueryRow(ctx, mergeJournalSQL, mark, mergeRows).Scan(&gone); err != nil {
		return 0, fmt.Errorf("merge the journal: %w", err)
	}
	return gone, nil
}
