package view

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/tick"
)

//go:embed past.sql
var pastSQL string

//go:embed shown.sql
var shownSQL string

// Known returns what was known at a tick of the offers of the transaction's tenant, by account and record: what a view of that
// moment would have shown, whatever was decided and claimed since. Where asOf is given, only claims count that were true by
// then: an observation from the least observed_at of its claims on.
func Known(ctx context.Context, q Querier, f Filter, at tick.Tick, asOf *offer.Time) ([]Document, error) {
	var ids [][16]byte
	if f.Record != "" {
		var err error
		if ids, err = history.OffersOf(ctx, q, f.Account, f.Record); err != nil {
			return nil, fmt.Errorf("find the offers of record %s: %w", f.Record, err)
		}
	}
	return known(ctx, q, f, ids, at, asOf)
}

// KnownOf is Known of some offers, deleted ones too.
func KnownOf(ctx context.Context, q Querier, offers []offer.OfferID, at tick.Tick, asOf *offer.Time) ([]Document, error) {
	ids := make([][16]byte, len(offers))
	for i, id := range offers {
		ids[i] = id
	}
	return known(ctx, q, Filter{IncludeDeleted: true}, ids, at, asOf)
}

// known reads the offers with the ids; nil: all.
func known(ctx context.Context, q Querier, f Filter, ids [][16]byte, at tick.Tick, asOf *offer.Time) ([]Document, error) {
	var upTo *int64
	if asOf != nil {
		upTo = &asOf.Nanos
	}
	rows, err := q.Query(ctx, pastSQL, f.Account, f.Item, f.IncludeDeleted, f.Limit, ids, at.Lanes, at.UpTo, upTo)
	if err != nil {
		return nil, fmt.Errorf("list offers as known at %s: %w", at.At, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Document, error) {
		var (
			r        history.Row
			flags    []string
			item     []string
			lastSeen int64
		)
		if err := row.Scan(append(r.Into(), &flags, &item, &lastSeen)...); err != nil {
			return Document{}, err
		}
		o, err := r.Observation()
		if err != nil {
			return Document{}, err
		}
		d := documentOf(&o, offer.ItemOf(item))
		d.Flags, d.LastSeenAt = flags, offer.TimeOf(time.Unix(0, lastSeen)).Text
		return d, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list offers as known at %s: %w", at.At, err)
	}
	return list, nil
}

// A Shown is what an offer was published with, and from when to when.
type Shown struct {
	Document
	ShownFrom  string `json:"shown_from"`
	ShownUntil string `json:"shown_until,omitempty"` // "": it still is
}

// EverShown returns what an offer of the transaction's tenant was ever published with, the oldest first.
func EverShown(ctx context.Context, q Querier, id offer.OfferID) ([]Shown, error) {
	rows, err := q.Query(ctx, shownSQL, uuid.UUID(id))
	if err != nil {
		return nil, fmt.Errorf("list what offer %s was shown as: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Shown, err error) {
		var (
			r     history.Row
			c     Change
			item  []string
			from  time.Time
			until *time.Time
		)
		if err := row.Scan(append(r.Into(), &c.Flags, &c.None, &item, &c.Revision, &from, &until)...); err != nil {
			return s, err
		}
		if c.Winner, err = r.Observation(); err != nil {
			return s, err
		}
		c.Item = offer.ItemOf(item)
		s.Document, s.ShownFrom = c.Document(), offer.TimeOf(from).Text
		if until != nil {
			s.ShownUntil = offer.TimeOf(*until).Text
		}
		return s, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list what offer %s was shown as: %w", id, err)
	}
	return list, nil
}
