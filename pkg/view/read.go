package view

import (
	"cmp"
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
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
	Limit          int // 0: all; Offers has none, Page has one
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

// ErrGone reports a generation that can be read no more: it is retired, or readers have never seen it.
var ErrGone = errors.New("the generation can be read no more")

// A Cursor is a place in the offers of one generation. Who reads on from cursor to cursor sees that generation throughout, wherever
// the pointer moves meanwhile, until it is retired.
type Cursor struct {
	Generation int
	After      offer.OfferID // zero: before all
}

// String is the cursor as ParseCursor reads it.
func (c Cursor) String() string { return fmt.Sprintf("%d.%s", c.Generation, c.After) }

// ParseCursor reads what String has written.
func ParseCursor(text string) (c Cursor, err error) {
	generation, after, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(generation, 10, 32)
	id, err2 := uuid.Parse(after)
	if err := errors.Join(err, err2); err != nil {
		return c, fmt.Errorf("%q is no cursor", text)
	}
	return Cursor{int(n), offer.OfferID(id)}, nil
}

// A Page is a part of the offers of one generation.
type Page struct {
	Offers []Document
	Next   *Cursor // nil: these are the last
}

// Offers returns the offers of the transaction's tenant in the active generation, by account and record. Deleted ones are
// left out unless they are asked for.
func Offers(ctx context.Context, q Querier, f Filter) ([]Document, error) {
	list, _, err := offers(ctx, q, f, nil, offer.OfferID{}, 0)
	slices.SortFunc(list, func(a, b Document) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Record, b.Record))
	})
	return list, err
}

// PageOf returns at most f.Limit offers of the transaction's tenant after a place, in the order of their ids. The first page is that
// after Cursor{Generation: Active}. ErrGone: begin again.
func PageOf(ctx context.Context, q Querier, f Filter, at Cursor) (p Page, err error) {
	list, last, err := offers(ctx, q, f, &at.Generation, at.After, f.Limit)
	if err != nil {
		return p, err
	}
	if len(list) == f.Limit {
		return Page{list, &Cursor{at.Generation, last}}, nil
	}
	// Asked afterwards: a generation that can be read still could be when the page was.
	rows, err := q.Query(ctx, "SELECT EXISTS (SELECT FROM readable_generation AS g WHERE g.id = $1)", at.Generation)
	if err != nil {
		return p, fmt.Errorf("find generation %d: %w", at.Generation, err)
	}
	readable, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err == nil && !readable {
		err = ErrGone
	}
	if err != nil {
		return p, fmt.Errorf("read on in generation %d: %w", at.Generation, err)
	}
	return Page{Offers: list}, nil
}

// offers reads in a generation, nil: the active one, and returns the id of the last offer.
func offers(ctx context.Context, q Querier, f Filter, generation *int, after offer.OfferID, limit int) (list []Document, last offer.OfferID, err error) {
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
	rows, err := q.Query(ctx, offersSQL, f.Account, f.Record, f.Item, f.IncludeDeleted, limit, of, now, generation, uuid.UUID(after))
	if err != nil {
		return nil, last, fmt.Errorf("list offers: %w", err)
	}
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Document, error) {
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
		last = o.Offer
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
		return nil, last, fmt.Errorf("list offers: %w", err)
	}
	return list, last, nil
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
