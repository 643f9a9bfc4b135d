package view

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed offers.sql
var offersSQL string

// A Filter narrows Offers; what is empty matches all.
type Filter struct {
	Account        string
	Record         string
	Item           string // the manufacturer's part number
	IncludeDeleted bool
	Limit          int // 0: all
}

// Offers returns the offers of the transaction's tenant in the active generation, by account and record. Deleted ones are
// left out unless they are asked for.
func Offers(ctx context.Context, q Querier, f Filter) ([]Document, error) {
	rows, err := q.Query(ctx, offersSQL, f.Account, f.Record, f.Item, f.IncludeDeleted, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list offers: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Document, error) {
		var (
			r        history.Row
			flags    []string
			revision int64
			lastSeen int64
		)
		if err := row.Scan(append(r.Into(), &flags, &revision, &lastSeen)...); err != nil {
			return Document{}, err
		}
		o, err := r.Observation()
		if err != nil {
			return Document{}, err
		}
		return Document{Document: o.Document(), Flags: flags, Revision: revision, LastSeenAt: offer.TimeOf(time.Unix(0, lastSeen)).Text}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list offers: %w", err)
	}
	return list, nil
}
