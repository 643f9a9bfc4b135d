// Package settle waits until what stands in the input topics is in the view.
//
// It goes by positions alone, each read from whoever moves it: offsets of the topics, the checkpoints of ingest, the numbers
// that its lanes had given at that checkpoint, what the relay has published of them, and the checkpoints of the projector.
// Lag is no measure: the marks of transactions hold offsets too, so no reader of our own topics ever reaches their end by
// counting records. It reads the views of audit_v1, owns no table and changes nothing.
package settle

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
)

var (
	//go:embed ingested.sql
	ingestedSQL string
	//go:embed projected.sql
	projectedSQL string
	//go:embed announced.sql
	announcedSQL string
)

// ErrHalted reports a partition that no longer moves: nobody need wait for it.
var ErrHalted = errors.New("halted")

// interval is the time between two looks at the positions.
const interval = 20 * time.Millisecond

// Progress is what was left of each step when a wait ended.
type Progress struct {
	Ingest  int64 `json:"ingest"`  // offsets of the input topics that are not stored
	Relay   int64 `json:"relay"`   // numbers of their lanes that are not published
	Project int64 `json:"project"` // offsets of observations that are not projected
}

// Wait returns when all that stood in the topics when it was called is in the view: every partition stored up to the end it
// had then, the numbers of its lane published as far as they had been given by then, and every partition of observations
// projected up to the end it had after that. What that put on replays by then is waited for likewise. topics are the input topics by their own names, commands among them. When ctx
// ends before, the error says which step was waited for; a halted partition is an ErrHalted at once.
func Wait(ctx context.Context, pool postgres.Pool, cluster kafka.Cluster, topics []string) (Progress, error) {
	w := waiter{pool: pool, cluster: cluster}
	err := w.wait(ctx, topics)
	if err != nil {
		err = fmt.Errorf("wait: %w", err)
	}
	return w.left, err
}

// Announced returns when every change of an offer that the projector has made so far is published too.
func Announced(ctx context.Context, pool postgres.Pool) error {
	w := waiter{pool: pool}
	if err := w.until(ctx, &w.left.Relay, "the relay to publish changes of offers", w.unannounced); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	return nil
}

// A waiter is one wait.
type waiter struct {
	pool    postgres.Pool
	cluster kafka.Cluster
	left    Progress
}

// A partition is one of a topic.
type partition struct {
	topic uuid.UUID
	n     int32
}

func (w *waiter) wait(ctx context.Context, topics []string) error {
	cl, err := w.cluster.NewClient()
	if err != nil {
		return err
	}
	defer cl.Close()
	// What stands in the topics may have put something on replays, which is an input topic too.
	for _, inputs := range [][]string{topics, {streams.Replays}} {
		if err := w.pass(ctx, cl, inputs); err != nil {
			return err
		}
	}
	// The end and not the last stable offset: behind a transaction of another lane that is still open stand ours.
	published := map[partition]int64{}
	observations, err := w.ends(ctx, cl, streams.Observations, published)
	if err != nil {
		return err
	}
	return w.until(ctx, &w.left.Project, "the projector to pass offsets", func(ctx context.Context) (int64, error) {
		return w.unprojected(ctx, observations, published)
	})
}

// pass waits until topics are stored, and until what that gave is published.
func (w *waiter) pass(ctx context.Context, cl *kgo.Client, topics []string) error {
	ends := map[partition]int64{}
	for _, name := range topics {
		if _, err := w.ends(ctx, cl, name, ends); err != nil {
			return err
		}
	}
	given := map[partition]int64{} // the last number of each lane when it had stored enough
	if err := w.until(ctx, &w.left.Ingest, "ingest to store offsets", func(ctx context.Context) (int64, error) {
		return w.unstored(ctx, ends, given)
	}); err != nil {
		return err
	}
	return w.until(ctx, &w.left.Relay, "the relay to publish numbers", func(ctx context.Context) (int64, error) {
		return w.unpublished(ctx, ends, given)
	})
}

// ends adds the ends of a topic's partitions, but for empty ones, and returns its id.
func (w *waiter) ends(ctx context.Context, cl *kgo.Client, topic string, ends map[partition]int64) (uuid.UUID, error) {
	t, err := kafka.Describe(ctx, cl, w.cluster.Topic(topic), false)
	if err != nil {
		return uuid.UUID{}, err
	}
	for p, end := range t.Ends {
		if end > t.Starts[p] {
			ends[partition{t.ID, int32(p)}] = end
		}
	}
	return t.ID, nil
}

// until looks at what is left until it is nothing.
func (w *waiter) until(ctx context.Context, left *int64, what string, look func(context.Context) (int64, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		n, err := look(ctx)
		if err == nil {
			*left = n
		}
		if ctx.Err() != nil {
			return fmt.Errorf("still waiting for %s, %d left: %w: see offerlog status", what, *left, context.Cause(ctx))
		}
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// A standing is how far one partition of an input topic has come.
type standing struct {
	partition
	next, sequence, published int64
	halt                      string
}

func (w *waiter) standings(ctx context.Context, ends map[partition]int64) (list []standing, err error) {
	var topics []uuid.UUID
	for p := range ends {
		topics = append(topics, p.topic)
	}
	err = w.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, ingestedSQL, topics)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s standing, err error) {
			return s, row.Scan(&s.topic, &s.n, &s.next, &s.sequence, &s.published, &s.halt)
		})
		return err
	})
	return list, err
}

// unstored counts the offsets below ends that ingest has not stored. Of a partition that it has, it notes the lane's number
// in given, once: later ones belong to records that came later.
func (w *waiter) unstored(ctx context.Context, ends, given map[partition]int64) (left int64, err error) {
	list, err := w.standings(ctx, ends)
	if err != nil {
		return 0, err
	}
	for _, end := range ends {
		left += end // of a partition without a lane: all
	}
	for _, s := range list {
		end := ends[s.partition]
		if left -= min(s.next, end); s.next < end {
			if s.halt != "" {
				return 0, fmt.Errorf("%s: partition %d of topic %s is at offset %d, want %d: see offerlog status: %w", s.halt, s.n, s.topic, s.next, end, ErrHalted)
			}
			continue
		}
		if _, noted := given[s.partition]; !noted {
			given[s.partition] = s.sequence
		}
	}
	return left, nil
}

// unpublished counts the numbers in given that the relay has not published.
func (w *waiter) unpublished(ctx context.Context, ends, given map[partition]int64) (left int64, err error) {
	list, err := w.standings(ctx, ends)
	if err != nil {
		return 0, err
	}
	for _, s := range list {
		n := given[s.partition] - s.published
		if n > 0 && s.halt != "" {
			return 0, fmt.Errorf("%s: the lane of partition %d of topic %s is published up to %d, want %d: see offerlog status: %w",
				s.halt, s.n, s.topic, s.published, given[s.partition], ErrHalted)
		}
		left += max(n, 0)
	}
	return left, nil
}

// unprojected counts the offsets of observations below ends that the projector has not passed.
func (w *waiter) unprojected(ctx context.Context, topic uuid.UUID, ends map[partition]int64) (left int64, err error) {
	passed := map[partition]int64{}
	err = w.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, projectedSQL, topic)
		if err != nil {
			return err
		}
		p, next := partition{topic: topic}, int64(0)
		_, err = pgx.ForEachRow(rows, []any{&p.n, &next}, func() error { passed[p] = next; return nil })
		return err
	})
	for p, end := range ends {
		left += max(end-passed[p], 0)
	}
	return left, err
}

func (w *waiter) unannounced(ctx context.Context) (left int64, err error) {
	err = w.inspect(ctx, func(tx pgx.Tx) error { return tx.QueryRow(ctx, announcedSQL).Scan(&left) })
	return left, err
}

func (w *waiter) inspect(ctx context.Context, f func(tx pgx.Tx) error) error {
	if err := postgres.InTx(ctx, w.pool, postgres.Inspect, f); err != nil {
		return fmt.Errorf("read positions: %w", err)
	}
	return nil
}
