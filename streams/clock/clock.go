// Package clock writes ticks, the moments that reads of the past stand on: one a second at most, and only where something has
// come since the last. Any number of processes may run it; the head of the ticks is held by one at a time.
package clock

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
)

// A Stage writes ticks.
type Stage struct {
	pool  *pgxpool.Pool
	every time.Duration
	log   *slog.Logger
}

// New returns a stage that looks for what has come, by default every second, once it is run.
func New(pool *pgxpool.Pool, every time.Duration, log *slog.Logger) *Stage {
	return &Stage{pool, cmp.Or(every, time.Second), log.With("stage", "clock")}
}

// Run writes ticks until ctx is done, and then returns nil.
func (s *Stage) Run(ctx context.Context) error {
	look := time.NewTicker(s.every)
	defer look.Stop()
	for {
		err := postgres.InTx(ctx, s.pool, postgres.Ingest, func(tx pgx.Tx) error {
			_, err := tick.Write(ctx, tx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			if !postgres.OutOfReach(err) {
				return fmt.Errorf("clock: %w", err)
			}
			s.log.WarnContext(ctx, "the next tick waits", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}
