package quarantine

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed unreached.sql
var unreachedSQL string

// Bounds of ListUnreached: a try each minute that doubles, so the last one comes about 17 hours after the event; and entries at once.
const (
	maxTries        = 10
	unreachedAtOnce = 100
)

// An Unreached is an entry of which the data could not be fetched, and that is due for another try.
type Unreached struct {
	Tenant string
	ID     uuid.UUID
	Tries  int // that were made since it was set aside
}

// ListUnreached returns the entries that are due, a hundred at most; the janitor's role may ask. After the last try an entry waits for
// an operator, or for its event to come again.
func ListUnreached(ctx context.Context, q Querier, now time.Time) ([]Unreached, error) {
	rows, err := q.Query(ctx, unreachedSQL, now, maxTries, unreachedAtOnce)
	if err != nil {
		return nil, fmt.Errorf("find what could not be fetched: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Unreached])
	if err != nil {
		return nil, fmt.Errorf("find what could not be fetched: %w", err)
	}
	return list, nil
}
