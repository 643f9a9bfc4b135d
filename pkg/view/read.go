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
	// Now is when the answer is read: what is older by then than its feed wants has a FreshnessGap. Zero: gaps are not told, as
	// they never are of the past, since how old evidence may be is no history.
	Now time.Time
}

// A FreshnessGap says that the evidence of an offer is older than its feed wants. To read it starts nothing.
type FreshnessGap struct {
	Age    string `json:"age"`    // since the source was last seen to say it, such as 26h3m0s
	Limit  string `json:"limit"`  // policy.freshness of the feed, such as 24h
	Action string `json:"action"` // what closes the gap
}

// Offers returns the offers of the transaction's tenant in the active generation, by account and record. Deleted ones are
// left out unless they are asked for.
func Offers(ctx context.Context, q Querier, f Filter) ([]Document, error) {
	var (
		of  []string
		now *int64
	)
	if f.Of != nil {
		of = f.Of.Fields()
	}
	if !f.Now.IsZero() {
		now = new(f.Now.UnixNano())
	}
	rows, err := q.Query(ctx, offersSQL, f.Account, f.Record, f.Item, f.IncludeDeleted, f.Limit, of, now)
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
			limit    string
		)
		if err := row.Scan(append(r.Into(), &flags, &item, &revision, &lastSeen, &limit)...); err != nil {
			return Document{}, err
		}
		o, err := r.Observation()
		if err != nil {
			return Document{}, err
		}
		seen := time.Unix(0, lastSeen)
		d := documentOf(&o, offer.ItemOf(item))
		d.Flags, d.Revision, d.LastSeenAt = flags, revision, offer.TimeOf(seen).Text
		if limit != "" {
			d.FreshnessGap = &FreshnessGap{f.Now.Sub(seen).Truncate(time.Second).String(), limit,
				fmt.Sprintf("have feed %s deliver again; reading starts nothing", o.Feed)}
		}
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
