// Package janitor tidies up what time leaves behind: the tasks are listed in tasks.go, and what each does stands in the
// package that owns the tables it touches.
//
// A task is done in steps, each a transaction that holds the task's row in the table janitor_task locked: any number of
// processes may run a janitor, and each task is done by one of them at a time. A step that a crash cuts off is rolled back
// and done again. Tasks are the only ones that remove rows, apart from the outbox's ring, which the relay prunes.
package janitor

import (
	"cmp"
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/postgres"
)

var (
	//go:embed register.sql
	registerSQL string
	//go:embed take.sql
	takeSQL string
	//go:embed done.sql
	doneSQL string
)

// Config holds the choices; the zero value works.
type Config struct {
	Archive archive.Store // where objects are collected; nil: nowhere
	// Command writes an event to the topic commands: what time makes due, but is not the janitor's to do. It is told again until
	// it is done, under the same id. Nil: nobody is told.
	Command func(ctx context.Context, event *kgo.Record) error
	Now     func() time.Time // the clock by which things are old: time.Now
	Poll    time.Duration    // between two looks for what is due: 1 min
}

// A Stage does the tasks that are due.
type Stage struct {
	pool  *pgxpool.Pool
	cfg   Config
	log   *slog.Logger
	tasks []task
}

// New returns a stage that works once it is run.
func New(pool *pgxpool.Pool, cfg Config, log *slog.Logger) *Stage {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Poll = cmp.Or(cfg.Poll, time.Minute)
	return &Stage{pool: pool, cfg: cfg, log: log.With("stage", "janitor"), tasks: tasks(cfg)}
}

// Run does what is due until ctx is done, and then returns nil. A task that fails is tried again at the next look, and keeps
// none of the others from being done.
func (s *Stage) Run(ctx context.Context) error {
	look := time.NewTicker(s.cfg.Poll)
	defer look.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			if !postgres.OutOfReach(err) && !errors.Is(err, archive.ErrStore) && !errors.Is(err, errUntold) {
				return fmt.Errorf("janitor: %w", err)
			}
			s.log.WarnContext(ctx, "what is due waits", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// Sweep does each task that is due, until nothing is left of it.
func (s *Stage) Sweep(ctx context.Context) error {
	if err := s.register(ctx); err != nil {
		return err
	}
	var errs []error
	for _, t := range s.tasks {
		removed, err := s.do(ctx, t)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.name, err))
		}
		if removed > 0 {
			s.log.InfoContext(ctx, "tidied up", "task", t.name, "removed", removed)
		}
	}
	return errors.Join(errs...)
}

func (s *Stage) register(ctx context.Context) error {
	names := make([]string, len(s.tasks))
	for i, t := range s.tasks {
		names[i] = t.name
	}
	err := postgres.InTx(ctx, s.pool, postgres.Janitor, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, registerSQL, names)
		return err
	})
	if err != nil {
		return fmt.Errorf("register tasks: %w", err)
	}
	return nil
}

// do takes the steps of a task, if it is due and nobody else is at it.
func (s *Stage) do(ctx context.Context, t task) (removed int, err error) {
	for more := true; more; {
		var n int
		err := postgres.InTx(ctx, s.pool, postgres.Janitor, func(tx pgx.Tx) error {
			more, n = false, 0 // this may be another try, after a lost race
			now := s.cfg.Now()
			err := tx.QueryRow(ctx, takeSQL, t.name, now).Scan(nil)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("take: %w", err)
			}
			if n, err = t.step(ctx, tx, now); err != nil {
				return err
			}
			if more = n > 0; more {
				return nil
			}
			if _, err := tx.Exec(ctx, doneSQL, t.name, now.Add(t.every)); err != nil {
				return fmt.Errorf("set when it is due again: %w", err)
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
