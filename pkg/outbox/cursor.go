package outbox

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed behind.sql
	behindSQL string
	//go:embed claim.sql
	claimSQL string
	//go:embed renew.sql
	renewSQL string
	//go:embed release.sql
	releaseSQL string
	//go:embed standing.sql
	standingSQL string
	//go:embed save.sql
	saveSQL string
	//go:embed halt.sql
	haltSQL string
)

// Halt reasons of a lane that the relay does not go on with.
const (
	OutboxBehindLog = "outbox_behind_log" // the log holds numbers that the lane has not given: a commit of PostgreSQL is lost
	CursorBehind    = "cursor_behind"     // the log's cursor is missing, or below what is known as published
	InvariantBroken = "invariant_broken"  // a number is missing in the outbox, or in history
)

// ErrLost reports a lease that is another's by now, or a lane that was halted.
var ErrLost = errors.New("the lease of the lane is lost")

// A Backlog is a lane that the relay has something to do with.
type Backlog struct {
	Lane       int
	HaltReason string // "" unless it is halted
	Free       bool   // nobody relays it
}

// Behind lists the lanes with unpublished events and the halted ones.
func Behind(ctx context.Context, tx pgx.Tx) ([]Backlog, error) {
	rows, err := tx.Query(ctx, behindSQL)
	if err != nil {
		return nil, fmt.Errorf("list lanes with unpublished events: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Backlog, err error) {
		return b, row.Scan(&b.Lane, &b.HaltReason, &b.Free)
	})
	if err != nil {
		return nil, fmt.Errorf("list lanes with unpublished events: %w", err)
	}
	return list, nil
}

// A Lease says who relays a lane. It keeps others from trying, no more: what keeps two from publishing the same is Kafka's
// fence. Every claim has a higher epoch, and what the holder writes is refused under an old one.
type Lease struct {
	Lane   int
	Holder string
	Epoch  int64
}

// Claim takes up to limit lanes, all but those listed, that have unpublished events and that nobody relays.
func Claim(ctx context.Context, tx pgx.Tx, holder string, length time.Duration, but []int, limit int) ([]Lease, error) {
	rows, err := tx.Query(ctx, claimSQL, holder, length, but, limit)
	if err != nil {
		return nil, fmt.Errorf("claim lanes: %w", err)
	}
	leases, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Lease, error) {
		l := Lease{Holder: holder}
		return l, row.Scan(&l.Lane, &l.Epoch)
	})
	if err != nil {
		return nil, fmt.Errorf("claim lanes: %w", err)
	}
	return leases, nil
}

// Renew prolongs the leases of one holder and returns the lanes of those that it still has.
func Renew(ctx context.Context, tx pgx.Tx, holder string, leases []Lease, length time.Duration) ([]int, error) {
	lanes, epochs := make([]int, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		lanes[i], epochs[i] = l.Lane, l.Epoch
	}
	rows, err := tx.Query(ctx, renewSQL, holder, lanes, epochs, length)
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	kept, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	return kept, nil
}

// Release gives the lease back, so that another can claim the lane at once.
func (l Lease) Release(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, releaseSQL, l.Lane, l.Holder, l.Epoch); err != nil {
		return fmt.Errorf("release lane %d: %w", l.Lane, err)
	}
	return nil
}

// Standing returns the copy of the lane's cursor and the last number that the lane has given, or ErrLost.
func (l Lease) Standing(ctx context.Context, tx pgx.Tx) (published, sequence int64, err error) {
	err = tx.QueryRow(ctx, standingSQL, l.Lane, l.Holder, l.Epoch).Scan(&published, &sequence)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrLost
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the cursor of lane %d: %w", l.Lane, err)
	}
	return published, sequence, nil
}

// Save moves the copy of the lane's cursor up to published; it never moves back. ErrLost where the lease is another's.
func (l Lease) Save(ctx context.Context, tx pgx.Tx, published int64) error {
	tag, err := tx.Exec(ctx, saveSQL, l.Lane, l.Holder, l.Epoch, published)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrLost
	}
	if err != nil {
		return fmt.Errorf("save the cursor of lane %d: %w", l.Lane, err)
	}
	return nil
}

// Halt stops the lane until an operator clears its halt, and gives the lease back. ErrLost where the lease is another's.
func (l Lease) Halt(ctx context.Context, tx pgx.Tx, reason string) error {
	tag, err := tx.Exec(ctx, haltSQL, l.Lane, l.Holder, l.Epoch, reason)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrLost
	}
	if err != nil {
		return fmt.Errorf("halt lane %d (%s): %w", l.Lane, reason, err)
	}
	return nil
}
