package outbox

import (
	"context"
	_ "embed" // for the statement
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed read.sql
var readSQL string

// ErrGap reports a number that the lane has given and the outbox does not hold.
var ErrGap = errors.New("a number is missing in the outbox")

// A Row is one row of the outbox: an event held whole, or the contiguous numbers First to Last of a lane's history.
type Row struct {
	First, Last int64
	Event       *Event // nil: the events are in history
}

// Read returns at most limit rows of a lane that hold numbers above after, in order and without a gap: the first holds
// after+1. None means that everything is read. What is missing below the lane's sequence is ErrGap.
func Read(ctx context.Context, tx pgx.Tx, lane int, after int64, limit int) ([]Row, error) {
	// The sequence first, in a statement of its own: every number up to it is committed when the rows are read.
	var sequence int64
	if err := tx.QueryRow(ctx, "SELECT l.sequence FROM lane AS l WHERE l.id = $1", lane).Scan(&sequence); err != nil {
		return nil, fmt.Errorf("read the sequence of lane %d: %w", lane, err)
	}
	found, err := tx.Query(ctx, readSQL, lane, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read the outbox of lane %d above %d: %w", lane, after, err)
	}
	rows, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (Row, error) { return scanRow(row, lane) })
	if err != nil {
		return nil, fmt.Errorf("read the outbox of lane %d above %d: %w", lane, after, err)
	}
	if sequence < after {
		return nil, fmt.Errorf("read the outbox of lane %d: its sequence %d is below %d, which is published", lane, sequence, after)
	}
	next := after + 1
	for i, r := range rows {
		if r.First > next || i > 0 && r.First < next {
			return nil, fmt.Errorf("read the outbox of lane %d: want number %d, found the row of %d to %d: %w", lane, next, r.First, r.Last, ErrGap)
		}
		next = r.Last + 1
	}
	if len(rows) < limit && next <= sequence {
		return nil, fmt.Errorf("read the outbox of lane %d: want number %d, found none up to its sequence %d: %w", lane, next, sequence, ErrGap)
	}
	return rows, nil
}

func scanRow(row pgx.CollectableRow, lane int) (Row, error) {
	var (
		r                Row
		how              string // the kind of row
		topic, key, kind *string
		id               *uuid.UUID
		body             []byte
		at               time.Time
	)
	if err := row.Scan(&r.First, &r.Last, &how, &topic, &key, &id, &kind, &body, &at); err != nil || topic == nil {
		return r, err
	}
	r.Event = &Event{Lane: lane, Seq: r.First, Topic: *topic, Broadcast: how == kindBroadcast, Body: body, RecordedAt: at}
	if key != nil {
		r.Event.Key = *key
	}
	if id == nil || kind == nil {
		return r, fmt.Errorf("the event of number %d has no id or no type", r.First)
	}
	r.Event.ID, r.Event.Type = *id, *kind
	return r, nil
}
