package quarantine

import (
	"bytes"
	"context"
	_ "embed" // for the statement
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed expire.sql
var expireSQL string

// expireEntries is how many entries one call of Expire takes.
const expireEntries = 1000

// Expire removes entries of a feed about which nothing has been open since a time, a thousand at most, and returns the id of their
// receipt and how many they are. What was decided about them stays, and so do the outcomes that tell of them.
func Expire(ctx context.Context, tx pgx.Tx, tenant, feed string, before time.Time) (receipt uuid.UUID, expired int64, err error) {
	rows, err := tx.Query(ctx, expireSQL, tenant, feed, before, expireEntries)
	if err != nil {
		return receipt, 0, fmt.Errorf("expire entries of quarantine of feed %s: %w", feed, err)
	}
	var (
		id, least uuid.UUID
		settled   time.Time
		at        time.Time
	)
	tag, err := pgx.ForEachRow(rows, []any{&id, &settled}, func() error {
		if least == uuid.Nil || bytes.Compare(id[:], least[:]) < 0 {
			least, at = id, settled
		}
		return nil
	})
	if err != nil {
		return receipt, 0, fmt.Errorf("expire entries of quarantine of feed %s: %w", feed, err)
	}
	// An entry can come again, and expire again, but not as of the same time.
	return offer.Derive("pruning", "quarantine", tenant, least.String(), offer.TimeOf(at).Text), tag.RowsAffected(), nil
}
