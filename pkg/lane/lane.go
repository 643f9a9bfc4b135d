// Package lane keeps, for each partition of an input topic, how far it is stored and how many events it has published.
//
// It owns the tables lane, commit_journal and gap. The row of a lane is checkpoint, sequence and lock in one: a transaction
// that locks it, finds it where it expects it, and moves it last, is the only one that can have stored that range. After
// a crash the row says where to go on; a worker that lost its partition without noticing finds the row moved and is
// fenced, with nothing of its transaction left.
package lane

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed register.sql
var registerSQL string

//go:embed list.sql
var listSQL string

//go:embed lock.sql
var lockSQL string

//go:embed advance.sql
var advanceSQL string

//go:embed halt.sql
var haltSQL string

//go:embed start.sql
var startSQL string

//go:embed try.sql
var trySQL string

//go:embed forgive.sql
var forgiveSQL string

// ErrFenced reports a lane that does not stand where its worker believes it does: somebody else has moved it. The worker
// drops what it holds of the partition and reads the checkpoint again.
var ErrFenced = errors.New("fenced: the lane was moved by another worker")

// ErrPartitions reports a topic with fewer partitions than lanes are known of it.
var ErrPartitions = errors.New("the topic has fewer partitions than lanes are known")

// ErrRecreated reports a topic that exists under its name with another id than the one that was read before.
var ErrRecreated = errors.New("the topic was deleted and made again")

// A Kind tells whose sequence a lane carries.
type Kind string

// Kinds of lanes.
const (
	Input     Kind = "input"     // a partition of an input topic: ingest publishes under its numbers
	Projector Kind = "projector" // a partition of observations: the projector publishes under its numbers
)

// Halt reasons.
const (
	LogGap         = "log_gap"         // the log begins behind the checkpoint
	LogTruncated   = "log_truncated"   // the log ends before the checkpoint
	TopicRecreated = "topic_recreated" // the topic has another id
)

// A Lane is one row: see the fields.
type Lane struct {
	ID         int
	Kind       Kind
	Topic      string
	TopicID    uuid.UUID
	Partition  int32
	Start      int64 // the first offset that was ever to be read
	Next       int64 // the first offset not yet stored
	Sequence   int64 // the last number given to an event
	Clock      time.Time
	HaltReason string // "" while it runs
	HaltFrom   int64
	HaltTo     int64 // exclusive
}

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Register makes sure that every partition of a topic has its lane and returns all lanes of the topic, by partition.
// The topic's first lanes begin at starts, its log start then; a partition that comes later begins at 0, so that nothing
// written to it before it was noticed is missed. A topic id that replaced another is ErrRecreated.
func Register(ctx context.Context, tx pgx.Tx, kind Kind, topic string, id uuid.UUID, starts []int64) ([]Lane, error) {
	known, err := List(ctx, tx, kind, topic)
	if err != nil {
		return nil, err
	}
	if len(starts) > len(known) {
		// The table deals out its ids by itself, and one at a time. Only then: the lock waits for every batch in hand, and all
		// others wait behind it.
		if _, err := tx.Exec(ctx, "LOCK TABLE lane IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return nil, fmt.Errorf("register lanes of %s: %w", topic, err)
		}
		if known, err = List(ctx, tx, kind, topic); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(known, func(l Lane) bool { return l.TopicID != id }) {
		return known, fmt.Errorf("%w: topic %s has id %s now: restore the topic that was read, or let offerlog adopt retire its lanes", ErrRecreated, topic, id)
	}
	if len(starts) < len(known) {
		return known, fmt.Errorf("%w: topic %s has %d partitions, %d are known: restore the topic, or check that --kafka names the right cluster",
			ErrPartitions, topic, len(starts), len(known))
	}
	if len(known) > 0 {
		starts = make([]int64, len(starts))
	}
	if len(starts) > len(known) {
		if _, err := tx.Exec(ctx, registerSQL, string(kind), topic, id, starts); err != nil {
			return nil, fmt.Errorf("register lanes of %s: %w", topic, err)
		}
	}
	return List(ctx, tx, kind, topic)
}

// List returns lanes by topic and partition, but for retired ones: of one kind and topic, or of all where they are empty.
func List(ctx context.Context, q Querier, kind Kind, topic string) ([]Lane, error) {
	rows, err := q.Query(ctx, listSQL, string(kind), topic)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Lane, err error) {
		var clock *time.Time
		err = row.Scan(&l.ID, &l.Kind, &l.Topic, &l.TopicID, &l.Partition, &l.Start, &l.Next, &l.Sequence, &clock, &l.HaltReason, &l.HaltFrom, &l.HaltTo)
		if clock != nil {
			l.Clock = *clock
		}
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return lanes, nil
}

// A Span is what a batch holds of one lane: the offsets [From, To).
type Span struct {
	Lane     int
	From, To int64
}

// A Held lane is locked and stands where its worker believes it does.
type Held struct {
	Span
	Sequence   int64     // the last number given so far
	RecordedAt time.Time // the time of everything that this transaction records in the lane; never falls
}

// Lock locks the lanes of spans in one order and returns them, by lane. Where one is not at From it is ErrFenced, and where
// one is halted likewise: the whole transaction is to fail, since the others can be done again.
func Lock(ctx context.Context, tx pgx.Tx, spans []Span) ([]Held, error) {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b Span) int { return a.Lane - b.Lane })
	ids, from := make([]int, len(spans)), make([]int64, len(spans))
	for i, s := range spans {
		ids[i], from[i] = s.Lane, s.From
	}
	rows, err := tx.Query(ctx, lockSQL, ids, from)
	if err != nil {
		return nil, fmt.Errorf("lock %d lanes: %w", len(spans), err)
	}
	held := make([]Held, 0, len(spans))
	var (
		id    int
		seq   int64
		clock *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &seq, &clock}, func() error {
		i := slices.Index(ids, id)
		h := Held{Span: spans[i], Sequence: seq}
		if clock != nil {
			h.RecordedAt = *clock
		}
		held = append(held, h)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock %d lanes: %w", len(spans), err)
	}
	if len(held) != len(spans) {
		return nil, fmt.Errorf("lock %d lanes, %d of them elsewhere by now: %w", len(spans), len(spans)-len(held), ErrFenced)
	}
	// The clock is read after the locks, in a statement of its own: a transaction that waited for a lock records later than
	// the one it waited for.
	var now time.Time
	if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	for i := range held {
		if held[i].RecordedAt.Before(now) {
			held[i].RecordedAt = now
		}
	}
	return held, nil
}

// Advance moves the lanes to the ends of their spans and sequences: one statement, the last of the transaction. worker
// names the process in the journal.
func Advance(ctx context.Context, tx pgx.Tx, held []Held, worker string) error {
	n := len(held)
	ids, from, to, seq, at := make([]int, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]time.Time, n)
	for i, h := range held {
		ids[i], from[i], to[i], seq[i], at[i] = h.Lane, h.From, h.To, h.Sequence, h.RecordedAt
	}
	tag, err := tx.Exec(ctx, advanceSQL, ids, from, to, seq, at, worker)
	if err != nil {
		return fmt.Errorf("advance %d lanes: %w", n, err)
	}
	if tag.RowsAffected() != int64(n) {
		return fmt.Errorf("advance %d lanes: %w", n, ErrFenced)
	}
	return nil
}

// Stop halts a lane with the range [from, to) that its log does not hold. A lane that is halted already keeps its reason.
func Stop(ctx context.Context, tx pgx.Tx, id int, reason string, from, to int64) error {
	if _, err := tx.Exec(ctx, haltSQL, id, reason, from, to); err != nil {
		return fmt.Errorf("halt lane %d (%s): %w", id, reason, err)
	}
	return nil
}

// A Checkpoint is where a lane stands.
type Checkpoint struct {
	Next   int64
	Halted bool // or retired
}

// Checkpoints returns where lanes stand, after every transaction that holds one of them has ended.
func Checkpoints(ctx context.Context, tx pgx.Tx, ids []int) (map[int]Checkpoint, error) {
	rows, err := tx.Query(ctx, "SELECT l.id, l.next, coalesce(l.halt_reason, l.retired_at::text) IS NOT NULL FROM lane AS l WHERE l.id = ANY ($1) ORDER BY l.id FOR UPDATE", ids)
	if err != nil {
		return nil, fmt.Errorf("read %d checkpoints: %w", len(ids), err)
	}
	stand := make(map[int]Checkpoint, len(ids))
	var (
		id int
		c  Checkpoint
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &c.Next, &c.Halted}, func() error { stand[id] = c; return nil }); err != nil {
		return nil, fmt.Errorf("read %d checkpoints: %w", len(ids), err)
	}
	return stand, nil
}

// Start counts that a worker takes lanes over, and returns how often that has happened to the unluckiest of them since its
// last commit. A lane that was taken over again and again without a commit may hold a record that its workers die of.
func Start(ctx context.Context, tx pgx.Tx, ids []int) (starts int, err error) {
	if err := tx.QueryRow(ctx, startSQL, ids).Scan(&starts); err != nil {
		return 0, fmt.Errorf("count the start of %d lanes: %w", len(ids), err)
	}
	return starts, nil
}

// Try counts that the next record of a lane is tried alone, and returns how often that has happened. It is committed before
// the try, so that a try that the process does not survive is counted too.
func Try(ctx context.Context, tx pgx.Tx, id int) (tries int, err error) {
	if err := tx.QueryRow(ctx, trySQL, id).Scan(&tries); err != nil {
		return 0, fmt.Errorf("count a try of lane %d: %w", id, err)
	}
	return tries, nil
}

// Forgive forgets the starts and tries of lanes: what went wrong was no record's fault.
func Forgive(ctx context.Context, tx pgx.Tx, ids []int) error {
	if _, err := tx.Exec(ctx, forgiveSQL, ids); err != nil {
		return fmt.Errorf("forgive %d lanes: %w", len(ids), err)
	}
	return nil
}
