// Package recovery keeps what each start of a worker found at a lane and did about it, so that an operator can tell a worker that
// recovers from one that went silent. It owns the table recovery.
//
// A worker says when it takes a lane over, and when it leaves it in order. One that died has not left: what it committed, and
// nobody has heard of, is recognized and not done again; what stood after its checkpoint, whether it had begun with it or not, is
// done again, since of what is not committed nothing tells. Positions are offsets of the partition, or for the relay numbers of the lane.
package recovery

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed begin.sql
	beginSQL string
	//go:embed leave.sql
	leaveSQL string
	//go:embed list.sql
	listSQL string
)

// Stages.
const (
	Ingest  = "ingest"
	Relay   = "relay"
	Project = "project"
)

// Found is what a worker finds at a lane that it takes over.
type Found struct {
	Lane       int
	Heard      int64 // up to here somebody has heard of what was committed, as far as the worker can tell; below 0: it cannot
	Checkpoint int64 // up to here it was committed
	Until      int64 // the end of what is there to do
}

// Starts are the numbers of starts, by lane: what their worker leaves by.
type Starts map[int]int64

// Begin records that a worker takes lanes over. The transaction holds what keeps others from doing so at the same time.
func Begin(ctx context.Context, tx pgx.Tx, stage, worker string, found []Found) (Starts, error) {
	lanes, heard, at, until := make([]int, len(found)), make([]int64, len(found)), make([]int64, len(found)), make([]int64, len(found))
	for i, f := range found {
		lanes[i], heard[i], at[i], until[i] = f.Lane, f.Heard, f.Checkpoint, f.Until
	}
	rows, err := tx.Query(ctx, beginSQL, stage, worker, lanes, heard, at, until)
	if err != nil {
		return nil, fmt.Errorf("record the start of %d lanes: %w", len(found), err)
	}
	starts := make(Starts, len(found))
	var (
		lane int
		n    int64
	)
	if _, err := pgx.ForEachRow(rows, []any{&lane, &n}, func() error { starts[lane] = n; return nil }); err != nil {
		return nil, fmt.Errorf("record the start of %d lanes: %w", len(found), err)
	}
	return starts, nil
}

// Leave records that their worker has left lanes in order: nothing of them is in its hands, and it knows what it has committed.
func Leave(ctx context.Context, tx pgx.Tx, stage string, starts Starts) error {
	lanes := slices.Sorted(maps.Keys(starts))
	numbers := make([]int64, len(lanes))
	for i, l := range lanes {
		numbers[i] = starts[l]
	}
	if _, err := tx.Exec(ctx, leaveSQL, stage, lanes, numbers); err != nil {
		return fmt.Errorf("record that %d lanes are left: %w", len(lanes), err)
	}
	return nil
}

// A Report is one start of a worker at a lane.
type Report struct {
	Found
	Stage       string
	Topic       string // of the lane, by its own name
	Partition   int32
	Number      int64 // of the start, from 1
	Worker      string
	Predecessor string     // who had the lane before and did not leave it in order; "": nobody
	Reached     int64      // how far the worker has come: to where the next one found the lane, or to where it stands now
	Latest      bool       // nobody has taken the lane over since
	StartedAt   time.Time  //
	LeftAt      *time.Time // in order; nil: it works, or it died
	MovedAt     time.Time  // when the lane was started or moved last
}

// Results of a start.
const (
	Nothing    = "nothing"    // there was nothing to recover
	Recognized = "recognized" // what was committed before is known by its result, and not done again
	Redone     = "redone"     // what stood after the checkpoint was done again
)

// Recognized counts what the dead predecessor had committed without anybody hearing of it.
func (r *Report) Recognized() int64 { return r.Checkpoint - r.Heard }

// Redone counts what was done again by now of what stood after the checkpoint of the dead predecessor.
func (r *Report) Redone() int64 {
	if r.Predecessor == "" {
		return 0
	}
	return max(0, min(r.Reached, r.Until)-r.Checkpoint)
}

// Results says what the start came to: Recognized, Redone, or both in this order, else Nothing.
func (r *Report) Results() (results []string) {
	if r.Recognized() > 0 {
		results = append(results, Recognized)
	}
	if r.Redone() > 0 {
		results = append(results, Redone)
	}
	if results == nil {
		results = append(results, Nothing)
	}
	return results
}

// States of a start.
const (
	Complete = "complete" // all that was there at the start is done, and nothing has waited since
	Working  = "working"
	Stalled  = "stalled" // something waits, and the worker neither does it nor has said that it leaves
	Left     = "left"    // in order
	Replaced = "replaced"
)

// State says how the start stands at a time. waits says that something which is there to do has waited longer than patience.
func (r *Report) State(now time.Time, patience time.Duration, lag int64, waits bool) string {
	switch {
	case r.LeftAt != nil:
		return Left
	case !r.Latest:
		return Replaced
	case lag == 0 && r.Reached >= r.Until:
		return Complete
	case waits && now.Sub(r.MovedAt) > patience:
		return Stalled
	default:
		return Working
	}
}

// List returns the reports that are kept, the last 32 of each stage and lane, in their order. It is read by the role Inspect.
func List(ctx context.Context, tx pgx.Tx) ([]Report, error) {
	rows, err := tx.Query(ctx, listSQL)
	if err != nil {
		return nil, fmt.Errorf("list recovery reports: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Report, err error) {
		err = row.Scan(&r.Stage, &r.Topic, &r.Partition, &r.Lane, &r.Number, &r.Worker, &r.Predecessor, &r.Heard, &r.Checkpoint, &r.Until, &r.Reached,
			&r.Latest, &r.StartedAt, &r.LeftAt, &r.MovedAt)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list recovery reports: %w", err)
	}
	return list, nil
}
