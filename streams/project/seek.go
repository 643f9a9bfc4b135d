package project

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
)

// ErrPartitions reports a topic with another number of partitions than the view was projected from: keys have moved, and
// with them the order of an offer's events.
var ErrPartitions = errors.New("the number of partitions has changed")

// ErrLogGap reports a log that begins behind the checkpoint: records were deleted before they were projected.
var ErrLogGap = errors.New("the log has lost records")

// seek answers where to read the partitions that the group has just given: at their checkpoints, whatever the group says.
func (w *worker) seek(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	checkpoints, err := w.checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	for p := range offsets[w.topic] {
		if int(p) >= len(checkpoints) {
			return nil, fmt.Errorf("%w: %s has partition %d now", ErrPartitions, w.topic, p)
		}
		w.expect(p, checkpoints[p].Next)
		offsets[w.topic][p] = kgo.NewOffset().At(checkpoints[p].Next)
	}
	return offsets, nil
}

// checkpoints returns those of the active generation, by partition, once it is sure that the topic is the one that they
// count in. The first time, it makes them: at the start of the log, with a lane for what each partition publishes.
func (w *worker) checkpoints(ctx context.Context) (list []view.Checkpoint, err error) {
	err = w.untilReached(ctx, func() error {
		topic, err := kafka.Describe(ctx, w.admin, w.topic, false)
		if err != nil {
			return err
		}
		return postgres.InTx(ctx, w.pool, postgres.Project, func(tx pgx.Tx) error {
			generation, err := view.Active(ctx, tx)
			if err != nil {
				return err
			}
			if list, err = view.Positions(ctx, tx); err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(c view.Checkpoint) bool { return c.Generation != generation })
			if len(list) > 0 {
				return check(w.topic, topic, list)
			}
			lanes, err := lane.Register(ctx, tx, lane.Projector, streams.Observations, topic.ID, topic.Starts)
			if err != nil {
				return err
			}
			for _, l := range lanes {
				list = append(list, view.Checkpoint{Generation: generation, Partition: l.Partition, TopicID: l.TopicID, Lane: l.ID, Next: l.Next})
			}
			return view.Start(ctx, tx, list)
		})
	})
	return list, err
}

// check compares a topic with the one that the checkpoints count in.
func check(name string, t kafka.Topic, checkpoints []view.Checkpoint) error {
	if have, want := len(t.Starts), len(checkpoints); have != want {
		return fmt.Errorf("%w: topic %s has %d, the view was projected from %d: make the topic again with %d and restore its records, or check that --kafka names the right cluster",
			ErrPartitions, name, have, want, want)
	}
	for i, c := range checkpoints {
		if c.TopicID != t.ID {
			return fmt.Errorf("%w: topic %s has id %s, the view was projected from %s: run offerlog adopt once what it lost is known",
				lane.ErrRecreated, name, t.ID, c.TopicID)
		}
		if start := t.Starts[i]; c.Next < start {
			return fmt.Errorf("%w: %s/%d begins at offset %d, the checkpoint stands at %d: restore the records between them",
				ErrLogGap, name, c.Partition, start, c.Next)
		}
	}
	return nil
}
