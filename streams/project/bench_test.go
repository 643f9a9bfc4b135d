package project_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
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
