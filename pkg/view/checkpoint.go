package view

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed start.sql
var startSQL string

//go:embed lock.sql
var lockSQL string

//go:embed advance.sql
var advanceSQL string

//go:embed positions.sql
var positionsSQL string

//go:embed take.sql
var takeSQL string

//go:embed handed.sql
var handedSQL string

// ErrNoCheckpoint reports a partition that a generation has never projected.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Vector is the last number applied, by lane. A lane that it lacks has had none applied.
type Vector map[int]int64

func (v Vector) columns() (lanes []int, applied []int64) {
	lanes, applied = make([]int, 0, len(v)), make([]int64, 0, len(v))
	for _, l := range slices.Sorted(maps.Keys(v)) {
		lanes, applied = append(lanes, l), append(applied, v[l])
	}
	return lanes, applied
}

// covers reports whether all of these numbers have been applied.
func (v Vector) covers(numbers []number) bool {
	return !slices.ContainsFunc(numbers, func(n number) bool { return n.seq > v[n.lane] })
}

// A Checkpoint says how far a generation has projected one partition of observations.
type Checkpoint struct {
	Generation int
	Partition  int32
	TopicID    uuid.UUID
	Lane       int   // whose sequence numbers what the partition publishes
	Next       int64 // the first offset not yet projected
	Applied    Vector
	Publishes  bool // what changes in this generation is published; told by Take alone
}

// Take reports whether an event is new to the checkpoint, and counts it as applied. The events of a lane stand in a
// partition in the order of their numbers, so what is at or below the last one has been here before.
func (c *Checkpoint) Take(lane int, seq int64) bool {
	if seq <= c.Applied[lane] {
		return false
	}
	c.Applied[lane] = seq
	return true
}

// Active returns the generation that readers see.
func Active(ctx context.Context, q Querier) (generation int, err error) {
	rows, err := q.Query(ctx, "SELECT p.active FROM generation_pointer AS p")
	if err != nil {
		return 0, fmt.Errorf("read the active generation: %w", err)
	}
	if generation, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int]); err != nil {
		return 0, fmt.Errorf("read the active generation: %w", err)
	}
	return generation, nil
}

// Start stores the first checkpoint of each partition that its generation has none of; the others stay.
func Start(ctx context.Context, tx pgx.Tx, checkpoints []Checkpoint) error {
	n := len(checkpoints)
	generations, partitions, topics := make([]int, n), make([]int32, n), make([]uuid.UUID, n)
	lanes, next := make([]int, n), make([]int64, n)
	for i, c := range checkpoints {
		generations[i], partitions[i], topics[i], lanes[i], next[i] = c.Generation, c.Partition, c.TopicID, c.Lane, c.Next
	}
	if _, err := tx.Exec(ctx, startSQL, generations, partitions, topics, lanes, next); err != nil {
		return fmt.Errorf("start %d checkpoints: %w", n, err)
	}
	return nil
}

// Lock locks the checkpoint of a partition and returns it. A transaction that locks the lane of the checkpoint too locks
// it after this.
func Lock(ctx context.Context, tx pgx.Tx, generation int, partition int32) (Checkpoint, error) {
	rows, err := tx.Query(ctx, lockSQL, generation, partition)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("lock the checkpoint of partition %d: %w", partition, err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCheckpoint)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoCheckpoint
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("lock the checkpoint of partition %d: %w", partition, err)
	}
	return c, nil
}

// Take locks the checkpoints of a partition in every generation that is not retired, and returns them, the active one first. All
// stand at the same place. A transaction that locks their lane too locks it after them.
func Take(ctx context.Context, tx pgx.Tx, partition int32) ([]Checkpoint, error) {
	list, err := take(ctx, tx, &partition)
	if err == nil && len(list) == 0 {
		err = ErrNoCheckpoint
	}
	if err != nil {
		return nil, fmt.Errorf("lock the checkpoints of partition %d: %w", partition, err)
	}
	return list, nil
}

// take locks the checkpoints of a partition, nil: of all. What the first statement waited for the second one sees.
func take(ctx context.Context, tx pgx.Tx, partition *int32) (list []Checkpoint, err error) {
	for range 2 {
		rows, err := tx.Query(ctx, takeSQL, partition)
		if err != nil {
			return nil, err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Checkpoint, err error) { err = c.scan(row, &c.Publishes); return c, err })
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// HandOver makes a generation the one that a partition publishes. The transaction holds the partition's checkpoints.
func HandOver(ctx context.Context, tx pgx.Tx, c Checkpoint) error {
	if _, err := tx.Exec(ctx, handedSQL, c.Generation, c.Partition); err != nil {
		return fmt.Errorf("hand partition %d over to generation %d: %w", c.Partition, c.Generation, err)
	}
	return nil
}

// Advance stores a checkpoint that this transaction holds.
func Advance(ctx context.Context, tx pgx.Tx, c Checkpoint) error {
	lanes, applied := c.Applied.columns()
	if _, err := tx.Exec(ctx, advanceSQL, c.Generation, c.Partition, c.Next, lanes, applied); err != nil {
		return fmt.Errorf("advance the checkpoint of partition %d: %w", c.Partition, err)
	}
	return nil
}

// Positions returns all checkpoints, by generation and partition.
func Positions(ctx context.Context, q Querier) ([]Checkpoint, error) {
	rows, err := q.Query(ctx, positionsSQL)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	return list, nil
}

func scanCheckpoint(row pgx.CollectableRow) (c Checkpoint, err error) {
	err = c.scan(row)
	return c, err
}

// scan reads a checkpoint, and what stands behind its columns into more.
func (c *Checkpoint) scan(row pgx.CollectableRow, more ...any) error {
	var (
		lanes   []int
		applied []int64
	)
	if err := row.Scan(append([]any{&c.Generation, &c.Partition, &c.TopicID, &c.Lane, &c.Next, &lanes, &applied}, more...)...); err != nil {
		return err
	}
	c.Applied = make(Vector, len(lanes))
	for i, l := range lanes {
		c.Applied[l] = applied[i]
	}
	return nil
}
