package lane

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed halted.sql
var haltedSQL string

//go:embed adopt.sql
var adoptSQL string

//go:embed retire.sql
var retireSQL string

//go:embed gap.sql
var gapSQL string

// ErrOtherHalt reports a lane that is not halted as whoever decides has seen it.
var ErrOtherHalt = errors.New("the partition is not halted so")

// A Decision says who lets a lane go on, and why.
type Decision struct {
	Command  uuid.UUID // the delivery that carries it
	Actor    string
	Why      string
	Artifact string // the object that keeps it, where no topic does
	At       time.Time
}

// A Gap is what a lane of an input topic goes on without.
type Gap struct {
	Topic     string
	Partition int32
	Reason    string // of the halt
	From, To  int64  // [From, To)
}

func (g Gap) String() string {
	return fmt.Sprintf("%s/%d halted %s %d-%d", g.Topic, g.Partition, g.Reason, g.From, g.To)
}

// Adopt lets a halted lane of an input topic go on, and keeps what it goes on without. After log_gap it goes on where its log
// begins, after log_truncated where it stands: offsets that the log gives a second time are not read a second time, since a
// place has one outcome. After topic_recreated all lanes of the topic are retired, and those of the new one begin at its log
// start. A lane that is not halted as g says is ErrOtherHalt.
func Adopt(ctx context.Context, tx pgx.Tx, g Gap, d Decision) error {
	var (
		id   int
		next int64
		now  = Gap{Topic: g.Topic, Partition: g.Partition}
	)
	err := tx.QueryRow(ctx, haltedSQL, g.Topic, g.Partition).Scan(&id, &next, &now.Reason, &now.From, &now.To)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: %s/%d was never read", ErrOtherHalt, g.Topic, g.Partition)
	case err != nil:
	case now.Reason == "":
		return fmt.Errorf("%w: %s/%d runs", ErrOtherHalt, g.Topic, g.Partition)
	case now != g:
		return fmt.Errorf("%w: it is %s", ErrOtherHalt, now)
	case g.Reason == TopicRecreated:
		err = retire(ctx, tx, id, g, d)
	default:
		if _, err = tx.Exec(ctx, adoptSQL, id, max(next, g.To), d.At); err == nil {
			err = record(ctx, tx, []int{id}, []int64{g.From}, []int64{g.To}, g, d)
		}
	}
	if err != nil {
		return fmt.Errorf("adopt %s: %w", g, err)
	}
	return nil
}

func retire(ctx context.Context, tx pgx.Tx, id int, g Gap, d Decision) error {
	rows, err := tx.Query(ctx, retireSQL, id, d.At)
	if err != nil {
		return err
	}
	var (
		lane  int
		next  int64
		lanes []int
		ends  []int64
	)
	if _, err := pgx.ForEachRow(rows, []any{&lane, &next}, func() error { lanes, ends = append(lanes, lane), append(ends, next); return nil }); err != nil {
		return err
	}
	return record(ctx, tx, lanes, ends, ends, g, d)
}

func record(ctx context.Context, tx pgx.Tx, lanes []int, from, to []int64, g Gap, d Decision) error {
	_, err := tx.Exec(ctx, gapSQL, lanes, d.Command, from, to, g.Reason, d.Actor, d.Why, d.Artifact, d.At)
	return err
}

// Adopted reports whether one of the halted lanes may go on, or another lane in its place.
func Adopted(ctx context.Context, q Querier, ids []int) (bool, error) {
	rows, err := q.Query(ctx, "SELECT EXISTS (SELECT FROM lane AS l WHERE l.id = ANY ($1) AND l.halt_reason IS NULL)", ids)
	if err == nil {
		var is bool
		if is, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool]); err == nil {
			return is, nil
		}
	}
	return false, fmt.Errorf("look at %d halted lanes: %w", len(ids), err)
}
