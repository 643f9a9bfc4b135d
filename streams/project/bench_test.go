package project_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
)

// BenchmarkApply folds 2,000 offers that have ten observations each, and stores what they show.
func BenchmarkApply(b *testing.B) {
	const offers, versions = 2000, 10
	pool := database(b)
	err := scratch(b.Context(), pool, func(tx pgx.Tx) error {
		var (
			claims []history.Observation
			keys   []offer.Key
		)
		for i := range offers {
			for v := range versions {
				c := claim{record: fmt.Sprint("R", i), version: int64(v + 1), price: fmt.Sprint(v + 1)}
				claims = append(claims, c.observation(b, fmt.Sprint("delivery-", v)))
				if v == 0 {
					keys = append(keys, c.key())
				}
			}
		}
		if err := newFeeder().store(b.Context(), tx, 1, claims...); err != nil {
			return err
		}
		if _, err := tx.Exec(b.Context(), "RESET ROLE; ANALYZE observation; SET LOCAL ROLE offerlog_project"); err != nil {
			return err
		}
		c := start()
		c.Applied[1] = offers * versions
		for b.Loop() {
			if _, err := view.Apply(b.Context(), tx, c, keys, false); err != nil {
				return err
			}
		}
		b.ReportMetric(float64(offers)*float64(b.N)/b.Elapsed().Seconds(), "offers/s")
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkKnownAt reads what was known of one offer at a tick, and beside it one row by its primary key on the same connection:
// the ratio is what a read of the past costs. The history has 200,000 observations.
func BenchmarkKnownAt(b *testing.B) {
	const offers, versions = 2000, 100
	pool := database(b)
	err := scratch(b.Context(), pool, func(tx pgx.Tx) error {
		f := newFeeder()
		for v := range versions {
			claims := make([]history.Observation, offers)
			for i := range claims {
				claims[i] = claim{record: fmt.Sprint("R", i), version: int64(v + 1), price: fmt.Sprint(v + 1)}.observation(b, fmt.Sprint("delivery-", v))
			}
			if err := f.store(b.Context(), tx, 1, claims...); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(b.Context(), "RESET ROLE; ANALYZE observation; SET LOCAL ROLE offerlog_read; SET LOCAL offerlog.tenant = 't1'"); err != nil {
			return err
		}
		id := claim{record: "R1000"}.key().ID()
		at := tick.Tick{Lanes: []int{1}, UpTo: []int64{offers * versions / 2}}
		var keys time.Duration
		for b.Loop() {
			list, err := view.KnownOf(b.Context(), tx, []offer.OfferID{id}, at, nil)
			if err != nil || len(list) != 1 || list[0].Price.String() != "50" {
				return fmt.Errorf("got %d offers and error %w, want price 50", len(list), err)
			}
			b.StopTimer()
			began := time.Now()
			var found int
			err = tx.QueryRow(b.Context(), `SELECT count(*) FROM observation_row AS o WHERE (o.tenant, o.offer, o.strong, o.ord) = ('t1', $1, true, 50)`, [16]byte(id)).Scan(&found)
			keys += time.Since(began)
			b.StartTimer()
			if err != nil || found != 1 {
				return fmt.Errorf("got %d rows and error %w by key", found, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(keys), "times-a-key")
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
