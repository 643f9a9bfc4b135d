// Package tick keeps the moments that reads of the past stand on.
//
// What was known at some time is not what carries an earlier time: a transaction gets its times before it commits, and one
// that commits later may carry an earlier one. So a read of the past stands on a vector: of each lane the number that it had
// reached. A tick is a time with such a vector. Times and numbers never fall from one tick to the next, so what is known at a
// tick never changes; and once a later one exists, nor does the answer for any moment before that.
//
// It owns the tables tick and tick_head.
package tick

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed hold.sql
	holdSQL string
	//go:embed write.sql
	writeSQL string
	//go:embed at.sql
	atSQL string
)

// ErrNone reports a time before the first tick: nothing was known then.
var ErrNone = errors.New("nothing was known")

// A Tick is a recorded moment.
type Tick struct {
	N      int64 // from 1
	At     time.Time
	Lanes  []int   // by id
	UpTo   []int64 // the number that each of them had reached
	Closed bool    // a later tick exists: answers for times from this one until then never change
}

// Write writes a tick where a lane has gone on since the last one, and reports whether it did. Where another transaction is
// about to, it does nothing.
func Write(ctx context.Context, tx pgx.Tx) (written bool, err error) {
	held, err := tx.Exec(ctx, holdSQL)
	if err == nil && held.RowsAffected() == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("hold the head of the ticks: %w", err)
	}
	tag, err := tx.Exec(ctx, writeSQL)
	if err != nil {
		return false, fmt.Errorf("write a tick: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// At returns the newest tick at or before a time, or ErrNone.
func At(ctx context.Context, tx pgx.Tx, t time.Time) (k Tick, err error) {
	err = tx.QueryRow(ctx, atSQL, t).Scan(&k.N, &k.At, &k.Lanes, &k.UpTo, &k.Closed)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNone
	}
	if err != nil {
		return Tick{}, fmt.Errorf("find the tick of %s: %w", t.UTC().Format(time.RFC3339Nano), err)
	}
	return k, nil
}
