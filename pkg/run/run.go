// Package run keeps the runs of connectors: what was said of a run, which of its pages have come, and so whether it is whole.
//
// It owns the tables run, run_page and run_event, written in the transaction that accepts a page or an event. A run exists
// from the first of them. That it is complete is no flag that somebody sets: it is complete when each of its pages 1 to n is
// accepted, n being the greatest number that a page or a completed event tells; a page in quarantine is missing, and a
// completed event alone proves nothing. Who brings the last one holds the run's row, counts in a new statement, and writes
// the decision (package decision) that its claims count from now on.
package run

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // for the statements
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed begin.sql
	beginSQL string
	//go:embed lock.sql
	lockSQL string
	//go:embed pages.sql
	pagesSQL string
	//go:embed events.sql
	eventsSQL string
	//go:embed of_pages.sql
	ofPagesSQL string
	//go:embed standings.sql
	standingsSQL string
)

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Run is one ingestion attempt of a connector.
type Run struct {
	Tenant     string
	ID         uuid.UUID // as ID derives it
	Feed       string
	Name       string // the run id of its events
	RecordedAt time.Time
}

// ID names a run: derived from tenant, feed and the run id of its events.
func ID(tenant, feed, name string) uuid.UUID { return offer.Derive("run", tenant, feed, name) }

// Subject is what decisions on the run are about.
func (r *Run) Subject() decision.Subject {
	return decision.Subject{Tenant: r.Tenant, Kind: decision.Run, ID: r.ID}
}

// Begin makes runs exist and locks them until tx ends.
func Begin(ctx context.Context, tx pgx.Tx, runs []Run) error {
	if len(runs) == 0 {
		return nil
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.ID[:], b.ID[:])) })
	runs = slices.CompactFunc(runs, func(a, b Run) bool { return a.Subject() == b.Subject() })
	n := len(runs)
	tenants, feeds, names := make([]string, n), make([]string, n), make([]string, n)
	ids, recorded := make([]uuid.UUID, n), make([]time.Time, n)
	for i, r := range runs {
		tenants[i], ids[i], feeds[i], names[i], recorded[i] = r.Tenant, r.ID, r.Feed, r.Name, r.RecordedAt
	}
	_, err := tx.Exec(ctx, beginSQL, tenants, ids, feeds, names, recorded)
	if err == nil {
		_, err = tx.Exec(ctx, lockSQL, tenants, ids)
	}
	if err != nil {
		return fmt.Errorf("begin %d runs: %w", n, err)
	}
	return nil
}

// A Page is one accepted delivery of a run.
type Page struct {
	Tenant     string
	Run        uuid.UUID
	Number     int // from 1
	Pages      int // 0 where the event does not say how many there are
	Delivery   offer.DeliveryID
	ObservedAt *int64 // when it was taken, in nanoseconds; nil where nothing tells
	Rejected   int    // rows
	Held       bool   // its claims do not count until a decision frees them
	RecordedAt time.Time
}

// OfPages returns the runs that deliveries of a tenant are pages of; a delivery that is of none has none.
func OfPages(ctx context.Context, tx pgx.Tx, tenant string, pages []offer.DeliveryID) (map[offer.DeliveryID]Run, error) {
	ids := make([]uuid.UUID, len(pages))
	for i, p := range pages {
		ids[i] = uuid.UUID(p)
	}
	rows, err := tx.Query(ctx, ofPagesSQL, tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("find the runs of %d pages: %w", len(pages), err)
	}
	runs := map[offer.DeliveryID]Run{}
	var (
		page uuid.UUID
		r    = Run{Tenant: tenant}
	)
	_, err = pgx.ForEachRow(rows, []any{&page, &r.ID, &r.Feed, &r.Name, &r.RecordedAt}, func() error { runs[offer.DeliveryID(page)] = r; return nil })
	if err != nil {
		return nil, fmt.Errorf("find the runs of %d pages: %w", len(pages), err)
	}
	return runs, nil
}

// Record stores what came of runs that have begun.
func Record(ctx context.Context, tx pgx.Tx, pages []Page, events []Event) error {
	if err := recordPages(ctx, tx, pages); err != nil {
		return fmt.Errorf("record %d pages: %w", len(pages), err)
	}
	if err := recordEvents(ctx, tx, events); err != nil {
		return fmt.Errorf("record %d events of runs: %w", len(events), err)
	}
	return nil
}

func recordPages(ctx context.Context, tx pgx.Tx, pages []Page) error {
	n := len(pages)
	if n == 0 {
		return nil
	}
	var (
		tenants               = make([]string, n)
		runs, deliveries      = make([]uuid.UUID, n), make([]uuid.UUID, n)
		numbers, of, rejected = make([]int, n), make([]int, n), make([]int, n)
		observed              = make([]*int64, n)
		held                  = make([]bool, n)
		recorded              = make([]time.Time, n)
	)
	for i, p := range pages {
		tenants[i], runs[i], numbers[i], of[i], deliveries[i] = p.Tenant, p.Run, p.Number, p.Pages, uuid.UUID(p.Delivery)
		observed[i], rejected[i], held[i], recorded[i] = p.ObservedAt, p.Rejected, p.Held, p.RecordedAt
	}
	_, err := tx.Exec(ctx, pagesSQL, tenants, runs, numbers, of, deliveries, observed, rejected, held, recorded)
	return err
}

func recordEvents(ctx context.Context, tx pgx.Tx, events []Event) error {
	n := len(events)
	if n == 0 {
		return nil
	}
	var (
		tenants, kinds, at, credentials, errs = make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		runs, deliveries                      = make([]uuid.UUID, n), make([]uuid.UUID, n)
		pages, numbers, attempts              = make([]int, n), make([]int, n), make([]int, n)
		recorded                              = make([]time.Time, n)
	)
	for i, e := range events {
		tenants[i], runs[i], deliveries[i], kinds[i], at[i] = e.Tenant, e.Run, uuid.UUID(e.Delivery), string(e.Kind), e.At.Text
		credentials[i], pages[i], numbers[i], attempts[i], errs[i], recorded[i] = e.Credential, e.Pages, e.Page, e.Attempt, e.Error, e.RecordedAt
	}
	_, err := tx.Exec(ctx, eventsSQL, tenants, runs, deliveries, kinds, at, credentials, pages, numbers, attempts, errs, recorded)
	return err
}

// A Standing is how a run stands in the transaction that holds it.
type Standing struct {
	Run
	Pages    int    // how many it has; 0: nobody has said
	Seen     int    // how many of them are accepted
	Rejected int    // rows of accepted pages
	AsOf     *int64 // the least time at which a page was taken, in nanoseconds; nil: a page does not say
	Verdict  decision.Verdict
	Counts   decision.Standing // what the last decision says of its claims, where there is one
	Released bool              // by an operator, now or once
}

// Release is how the claims of the run count once an operator has released it: all, or as a part where pages are missing.
func (s *Standing) Release() decision.Standing {
	if s.Whole() {
		return decision.Counting
	}
	return decision.Partial
}

// Whole reports whether each page is there.
func (s *Standing) Whole() bool { return s.Pages > 0 && s.Seen == s.Pages }

// Completes reports whether the run is whole and nothing has been decided about that yet. What an operator has rejected stays
// so; what he has released as a part counts as a whole now.
func (s *Standing) Completes() bool {
	return s.Whole() && (s.Verdict == "" || s.Verdict == decision.Released && s.Counts == decision.Partial)
}

// Standings returns those of runs that tx holds, by tenant and id.
func Standings(ctx context.Context, tx pgx.Tx, subjects []decision.Subject) ([]Standing, error) {
	tenants, ids := make([]string, len(subjects)), make([]uuid.UUID, len(subjects))
	for i, s := range subjects {
		tenants[i], ids[i] = s.Tenant, s.ID
	}
	rows, err := tx.Query(ctx, standingsSQL, tenants, ids)
	if err != nil {
		return nil, fmt.Errorf("count the pages of %d runs: %w", len(subjects), err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Standing, err error) {
		return s, row.Scan(&s.Tenant, &s.ID, &s.Feed, &s.Name, &s.Pages, &s.Seen, &s.Rejected, &s.AsOf, &s.Verdict, &s.Counts, &s.Released)
	})
	if err != nil {
		return nil, fmt.Errorf("count the pages of %d runs: %w", len(subjects), err)
	}
	return list, nil
}
