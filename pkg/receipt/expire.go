package receipt

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
)

//go:embed expire.sql
var expireSQL string

// Bounds of Expire: outcomes of one statement, and statements of one call that find nothing to remove.
const (
	expireOutcomes = 5_000
	expireSteps    = 200
)

// Expire removes receipts that were recorded longer ago than their feeds keep them, and returns how many: a few thousand at
// most, so that it is called until there are none. The outcomes stay. Receipts of commands and of feeds that are not named
// are kept: a command must not be carried out twice, however late its copy comes.
//
// It goes along the outcomes of each lane, once for each length of time that feeds have chosen, and remembers how far it came:
// no index tells the age of a receipt, which every delivery would have to pay for. Who claims a key that is being expired
// waits for the end of tx.
func Expire(ctx context.Context, tx pgx.Tx, feeds []feed.Horizon, now time.Time) (removed int, err error) {
	rows, err := tx.Query(ctx, "SELECT l.id FROM lane AS l WHERE l.kind = 'input' ORDER BY l.id")
	if err != nil {
		return 0, fmt.Errorf("expire receipts: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("expire receipts: %w", err)
	}
	lengths := map[time.Duration]bool{}
	for _, f := range feeds {
		lengths[f.Dedupe] = true
	}
	steps := 0
	for _, keep := range slices.Sorted(maps.Keys(lengths)) {
		// Those with a shorter time too: a feed may have had a longer one when the shorter steps were taken.
		var tenants, names []string
		for _, f := range feeds {
			if f.Dedupe <= keep {
				tenants, names = append(tenants, f.Tenant), append(names, f.Feed)
			}
		}
		for _, lane := range lanes {
			for more := true; more && steps < expireSteps; steps++ {
				if err := tx.QueryRow(ctx, expireSQL, lane, int64(keep), expireOutcomes, now.Add(-keep), tenants, names).Scan(&removed, &more); err != nil {
					return 0, fmt.Errorf("expire receipts of lane %d: %w", lane, err)
				}
				if removed > 0 {
					return removed, nil
				}
			}
		}
	}
	return 0, nil
}
