package outbox

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/offerlog/offerlog/pkg/fault"
)

var (
	//go:embed published.sql
	publishedSQL string
	//go:embed mark_pruned.sql
	markPrunedSQL string
)

// The tables of the ring, by slot.
var (
	lockSlot  = [...]string{"LOCK TABLE outbox_0", "LOCK TABLE outbox_1", "LOCK TABLE outbox_2"} // ACCESS EXCLUSIVE
	emptySlot = [...]string{"TRUNCATE outbox_0", "TRUNCATE outbox_1", "TRUNCATE outbox_2"}
)

// ErrBusy reports that a slot was in use for longer than Prune waits. The next attempt may do.
var ErrBusy = errors.New("the slot is in use")

// Pruned is what a call of Prune has done.
type Pruned struct {
	Emptied int  // slots
	Moved   bool // new rows go to the next slot
}

// Prune empties the slots whose rows are all published, except the one that new rows go to; and it makes the next slot
// that one once it holds more than slotBytes and the next is empty. So the outbox takes about two slots while the relay
// keeps up, however much goes through it. It runs as the janitor, one at a time, and waits for a table 50 ms at most.
func Prune(ctx context.Context, tx pgx.Tx, slotBytes int64) (Pruned, error) {
	p, err := prune(ctx, tx, slotBytes)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55P03" {
		err = ErrBusy
	}
	if err != nil {
		return Pruned{}, fmt.Errorf("prune the outbox: %w", err)
	}
	return p, nil
}

func prune(ctx context.Context, tx pgx.Tx, slotBytes int64) (p Pruned, err error) {
	// Whoever holds up live work behind its wait for a table gives up soon.
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '50ms'"); err != nil {
		return p, err
	}
	var current int
	err = tx.QueryRow(ctx, "SELECT r.slot FROM outbox_ring AS r FOR UPDATE SKIP LOCKED").Scan(&current)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil // another janitor is at it
	}
	if err != nil {
		return p, err
	}
	next := (current + 1) % len(emptySlot)
	nextFilled := false
	for slot := range emptySlot {
		if slot == current {
			continue
		}
		filled, emptied, err := empty(ctx, tx, slot)
		if err != nil {
			return p, err
		}
		if emptied {
			p.Emptied++
		}
		if slot == next {
			nextFilled = filled && !emptied
		}
	}
	var bytes int64
	if err := tx.QueryRow(ctx, "SELECT pg_table_size(('outbox_' || $1::int)::regclass)", current).Scan(&bytes); err != nil {
		return p, err
	}
	if bytes > slotBytes && !nextFilled {
		_, err = tx.Exec(ctx, "UPDATE outbox_ring AS r SET slot = $1", next)
		p.Moved = err == nil
	}
	return p, err
}

// empty truncates a slot if each of its rows is published.
func empty(ctx context.Context, tx pgx.Tx, slot int) (filled, emptied bool, err error) {
	var published bool
	look := func() error { return tx.QueryRow(ctx, publishedSQL, slot).Scan(&filled, &published) }
	if err := look(); err != nil || !filled || !published {
		return filled, false, err
	}
	if _, err := tx.Exec(ctx, lockSlot[slot]); err != nil {
		return filled, false, err
	}
	// Again, now that nobody can add: a transaction that began before the ring moved may have.
	if err := look(); err != nil || !published {
		return filled, false, err
	}
	if _, err := tx.Exec(ctx, markPrunedSQL, slot); err != nil {
		return filled, false, err
	}
	fault.Point("relay.pruned_half")
	_, err = tx.Exec(ctx, emptySlot[slot])
	return filled, err == nil, err
}
