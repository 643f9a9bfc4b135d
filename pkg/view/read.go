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

//go:embed items.sql
var itemsSQL string

//go:embed offers.sql
var offersSQL string

// A Filter narrows Offers; what is empty matches all.
type Filter struct {
	Account        string
	Record         string
	Item           string      // the manufacturer's part number
	Of             *offer.Item // just this one, with no part more or less
	IncludeDeleted bool
	Limit          int // 0: all
}

// Offers returns the offers of the transaction's tenant in the active generation, by account and record. Deleted ones are
// left out unless they are asked for.
func Offers(ctx context.Context, q Querier, f Filter) ([]Document, error) {
	var of []string
	if f.Of != nil {
		of = f.Of.Fields()
	}
	rows, err := q.Query(ctx, offersSQL, f.Account, f.Record, f.Item, f.IncludeDeleted, f.Limit, of)
	if err != nil {
		return nil, fmt.Errorf("list offers: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Document, error) {
		var (
			r        history.Row
			flags    []string
			item     []string
			revision int64
			lastSeen int64
		)
		if err := row.Scan(append(r.Into(), &flags, &item, &revision, &lastSeen)...); err != nil {
			return Document{}, err
		}
		o, err := r.Observation()
		if err != nil {
			return Document{}, err
		}
		d := documentOf(&o, offer.ItemOf(item))
		d.Flags, d.Revision, d.LastSeenAt = flags, revision, offer.TimeOf(time.Unix(0, lastSeen)).Text
		return d, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list offers: %w", err)
	}
	return list, nil
}

// An ItemDocument is the JSON form of an item: how many offers there are of it, and of how many accounts. It says nothing of prices
// or stock, which are each source's own claim.
type ItemDocument struct {
	Item     offer.Item `json:"item"`
	Offers   int        `json:"offers"`
	Accounts int        `json:"supplier_accounts"`
}

// Items returns the items of which the transaction's tenant has offers that are not deleted, in the order of their parts; with a
// part number those that have it.
func Items(ctx context.Context, q Querier, mpn string, limit int) ([]ItemDocument, error) {
	rows, err := q.Query(ctx, itemsSQL, mpn, limit)
	if err != nil {
		return nil, fmt.Errorf("list items: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d ItemDocument, err error) {
		var item []string
		err = row.Scan(&item, &d.Offers, &d.Accounts)
		d.Item = offer.ItemOf(item)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list items: %w", err)
	}
	return list, nil
}
