// Package run keeps the runs of connectors: which pages of a run have come, and with which deliveries.
//
// It owns the tables run and run_page, written in the transaction that accepts a page. A run exists from its first page; a
// delivery without a run id is a run of one and leaves nothing here.
package run

import (
	"cmp"
	"context"
	_ "embed" // for the statement
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed record.sql
var recordSQL string

// A Page is one accepted delivery of a run.
type Page struct {
	Tenant     string
	Feed       string
	Run        string
	Number     int // 0 where the event names none
	Pages      int // 0 where the event does not say how many there are
	Delivery   offer.DeliveryID
	RecordedAt time.Time
}

// Record stores pages and makes their runs exist.
func Record(ctx context.Context, tx pgx.Tx, pages []Page) error {
	n := len(pages)
	if n == 0 {
		return nil
	}
	slices.SortFunc(pages, func(a, b Page) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Feed, b.Feed), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Number, b.Number))
	})
	var (
		tenants, feeds, runs = make([]string, n), make([]string, n), make([]string, n)
		numbers, of          = make([]int, n), make([]int, n)
		deliveries           = make([][16]byte, n)
		recorded             = make([]time.Time, n)
	)
	for i, p := range pages {
		tenants[i], feeds[i], runs[i], numbers[i], of[i] = p.Tenant, p.Feed, p.Run, p.Number, p.Pages
		deliveries[i], recorded[i] = [16]byte(p.Delivery), p.RecordedAt
	}
	if _, err := tx.Exec(ctx, recordSQL, tenants, feeds, runs, numbers, of, deliveries, recorded); err != nil {
		return fmt.Errorf("record %d pages: %w", n, err)
	}
	return nil
}
