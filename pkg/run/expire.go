package run

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed expirable.sql
	expirableSQL string
	//go:embed expire.sql
	expireSQL string
)

// expireRuns is how many runs one call of Expire takes.
const expireRuns = 1000

// Expire removes runs of a feed of which nothing has come since a time, a thousand at most, and returns the id of their receipt
// and how many they are. A run stays while its claims are held: a late page may complete it, and an operator can decide about
// it. What was decided about a run stays too, so its claims count, or do not, as before. A page that comes after its run has
// gone begins the run anew.
func Expire(ctx context.Context, tx pgx.Tx, tenant, feed string, before time.Time) (receipt uuid.UUID, expired int64, err error) {
	old, _, err := expirable(ctx, tx, tenant, feed, before, nil)
	if err != nil || len(old) == 0 {
		return receipt, 0, err
	}
	// Once more under the locks: something may have come of one meanwhile.
	old, first, err := expirable(ctx, tx, tenant, feed, before, old)
	if err != nil || len(old) == 0 {
		return receipt, 0, err
	}
	tag, err := tx.Exec(ctx, expireSQL, tenant, old)
	if err != nil {
		return receipt, 0, fmt.Errorf("expire runs of feed %s: %w", feed, err)
	}
	// A run can come again, and expire again, but not as of the same time.
	return offer.Derive("pruning", "runs", tenant, old[0].String(), offer.TimeOf(first).Text), tag.RowsAffected(), nil
}

// expirable locks runs and returns them, the oldest first, with when that one was recorded.
func expirable(ctx context.Context, tx pgx.Tx, tenant, feed string, before time.Time, of []uuid.UUID) (runs []uuid.UUID, first time.Time, err error) {
	rows, err := tx.Query(ctx, expirableSQL, tenant, feed, before, expireRuns, of)
	if err == nil {
		var (
			id       uuid.UUID
			recorded time.Time
		)
		_, err = pgx.ForEachRow(rows, []any{&id, &recorded}, func() error {
			if len(runs) == 0 {
				first = recorded
			}
			runs = append(runs, id)
			return nil
		})
	}
	if err != nil {
		return nil, first, fmt.Errorf("expire runs of feed %s: %w", feed, err)
	}
	return runs, first, nil
}
