// Package outbox keeps the events that wait for the relay, stored in the transaction that causes them.
//
// It owns the tables outbox, outbox_ring and relay_cursor. Every event has a number of its lane, without a gap and in the
// order of commits, because the numbers come from the lane's row, which the transaction holds. Observations and sightings
// never change, so a row stands for a whole range of them; other events are held as they are.
package outbox

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed append.sql
var appendSQL string

// What a row of the outbox is.
const (
	kindHistory   = "history"
	kindEvent     = "event"
	kindBroadcast = "broadcast"
)

// A Range stands for the observations and sightings numbered First to Last of a lane.
type Range struct {
	Lane        int
	First, Last int64
	RecordedAt  time.Time
}

// An Event is one event held whole.
type Event struct {
	Lane       int
	Seq        int64
	Topic      string // by its own name, without the installation's prefix
	Key        string // of the record, as offer.JoinKey writes it: the tenant first, last what it is about
	Broadcast  bool   // every partition of the topic gets it, not only the key's
	ID         uuid.UUID
	Type       string
	Body       []byte // JSON
	RecordedAt time.Time
}

// Append stores ranges and events with the numbers that their lanes have given them.
func Append(ctx context.Context, tx pgx.Tx, ranges []Range, events []Event) error {
	n := len(ranges) + len(events)
	if n == 0 {
		return nil
	}
	var (
		lanes               = make([]int, 0, n)
		first, last         = make([]int64, 0, n), make([]int64, 0, n)
		kinds               = make([]string, 0, n)
		topics, keys, types = make([]*string, 0, n), make([]*string, 0, n), make([]*string, 0, n)
		ids                 = make([]pgtype.UUID, 0, n) // as bytes, and not as texts
		bodies              = make([][]byte, 0, n)
		at                  = make([]time.Time, 0, n)
	)
	for _, r := range ranges {
		lanes, first, last, at = append(lanes, r.Lane), append(first, r.First), append(last, r.Last), append(at, r.RecordedAt)
		kinds = append(kinds, kindHistory)
		topics, keys, types, ids, bodies = append(topics, nil), append(keys, nil), append(types, nil), append(ids, pgtype.UUID{}), append(bodies, nil)
	}
	for i := range events {
		e := &events[i]
		lanes, first, last, at = append(lanes, e.Lane), append(first, e.Seq), append(last, e.Seq), append(at, e.RecordedAt)
		kind := kindEvent
		if e.Broadcast {
			kind = kindBroadcast
		}
		kinds = append(kinds, kind)
		topics, keys, types = append(topics, &e.Topic), append(keys, &e.Key), append(types, &e.Type)
		ids, bodies = append(ids, pgtype.UUID{Bytes: e.ID, Valid: true}), append(bodies, e.Body)
	}
	if _, err := tx.Exec(ctx, appendSQL, lanes, first, last, kinds, topics, keys, ids, types, bodies, at); err != nil {
		return fmt.Errorf("append %d rows to the outbox: %w", n, err)
	}
	return nil
}
