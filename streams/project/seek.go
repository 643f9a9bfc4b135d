package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/recovery"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
)

// ErrPartitions reports a topic with another number of partitions than the view was projected from: keys have moved, and
// with them the order of an offer's events.
var ErrPartitions = errors.New("the number of partitions has changed")

// restore is the next step where a log is not the one that was read.
const restore = "restore the topic that was read: the partition stays halted otherwise"

// A place is where a partition is projected on from, and whether it is halted there.
type place struct {
	view.Checkpoint
	halted bool
	end    int64 // of the log
}

// seek answers where to read the partitions that the group has just given: at their checkpoints, whatever the group says.
func (w *worker) seek(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	list, err := w.places(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.begin(ctx, list, offsets[w.topic]); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range offsets[w.topic] {
		switch {
		case int(p) < len(list) && !list[p].halted:
			w.cl.ResumeFetchPartitions(map[string][]int32{w.topic: {p}})
			w.next[p] = list[p].Next
			offsets[w.topic][p] = kgo.NewOffset().At(list[p].Next)
		case slices.ContainsFunc(list, func(pl place) bool { return !pl.halted }) && int(p) >= len(list):
			return nil, fmt.Errorf("%w: %s has partition %d now", ErrPartitions, w.topic, p)
		default:
			w.rest(p)
			offsets[w.topic][p] = kgo.NewOffset().At(0)
		}
	}
	return offsets, nil
}

// begin records what the worker finds at partitions that it is given.
func (w *worker) begin(ctx context.Context, list []place, given map[int32]kgo.Offset) error {
	var found []recovery.Found
	partitions := map[int]int32{} // by lane
	for _, p := range list {
		if said, ok := given[p.Partition]; ok && !p.halted {
			found = append(found, recovery.Found{Lane: p.Lane, Heard: said.EpochOffset().Offset, Until: p.end})
			partitions[p.Lane] = p.Partition
		}
	}
	var starts recovery.Starts
	err := w.untilReached(ctx, func() error {
		return postgres.InTx(ctx, w.pool, postgres.Project, func(tx pgx.Tx) error {
			stand, err := lane.Checkpoints(ctx, tx, slices.Collect(maps.Keys(partitions)))
			if err != nil {
				return err
			}
			for i := range found {
				found[i].Checkpoint = stand[found[i].Lane].Next
			}
			starts, err = recovery.Begin(ctx, tx, recovery.Project, w.cfg.Worker, found)
			return err
		})
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for l, n := range starts {
		w.starts[partitions[l]] = recovery.Starts{l: n}
	}
	return err
}

// leaveTimeout bounds the wait for PostgreSQL where partitions are given back: a lane that is not seen to be left in order is taken
// over as after a crash, which does no harm.
const leaveTimeout = 5 * time.Second

// revoked gives partitions back. The group asks for them between batches alone.
func (w *worker) revoked(ctx context.Context, _ *kgo.Client, given map[string][]int32) {
	starts := w.drop(given)
	if len(starts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	err := postgres.InTx(ctx, w.pool, postgres.Project, func(tx pgx.Tx) error { return recovery.Leave(ctx, tx, recovery.Project, starts) })
	if err != nil {
		w.log.Warn("partitions are left without a word: the next worker takes them over as after a crash", "error", err)
	}
}

// lostAll hears that others have the partitions by now.
func (w *worker) lostAll(_ context.Context, _ *kgo.Client, lost map[string][]int32) { w.drop(lost) }

// drop forgets the starts of partitions, and returns them.
func (w *worker) drop(gone map[string][]int32) recovery.Starts {
	w.mu.Lock()
	defer w.mu.Unlock()
	starts := recovery.Starts{}
	for _, p := range gone[w.topic] {
		maps.Copy(starts, w.starts[p])
		delete(w.starts, p)
	}
	return starts
}

// places returns where the partitions of the active generation stand, by partition. Those whose log does not hold what comes
// next are halted then.
//
// Meanwhile other workers move the checkpoints, the relay and retention the bounds. So the checkpoints are read between two
// looks at the bounds: whoever moves what, a sound log began before at or below a checkpoint, and ends afterwards at or above it.
func (w *worker) places(ctx context.Context) (list []place, err error) {
	err = w.untilReached(ctx, func() error {
		before, err := kafka.Describe(ctx, w.admin, w.topic, false)
		if err != nil {
			return err
		}
		if list, err = w.load(ctx, before); err != nil {
			return err
		}
		after, err := kafka.Describe(ctx, w.admin, w.topic, false)
		if err != nil {
			return err
		}
		if after.ID != before.ID {
			return fmt.Errorf("look at topic %s: %w", w.topic, kerr.InconsistentTopicID) // the next look sees one topic
		}
		for i := range list {
			if i < len(after.Ends) {
				list[i].end = after.Ends[i]
			}
		}
		return w.compare(ctx, list, before, after)
	})
	return list, err
}

// load reads the places. The first time, it makes them: at the start of the log, with a lane for what each partition
// publishes.
func (w *worker) load(ctx context.Context, topic kafka.Topic) (list []place, err error) {
	err = postgres.InTx(ctx, w.pool, postgres.Project, func(tx pgx.Tx) error {
		generation, err := view.Active(ctx, tx)
		if err != nil {
			return err
		}
		checkpoints, err := view.Positions(ctx, tx)
		if err != nil {
			return err
		}
		all := len(checkpoints)
		checkpoints = slices.DeleteFunc(checkpoints, func(c view.Checkpoint) bool { return c.Generation != generation })
		if all > 0 && len(checkpoints) == 0 {
			return fmt.Errorf("read the checkpoints of generation %d: %w", generation, postgres.ErrLostRace) // it was retired meanwhile
		}
		var lanes []lane.Lane
		if len(checkpoints) > 0 {
			lanes, err = lane.List(ctx, tx, lane.Projector, streams.Observations)
		} else if lanes, err = lane.Register(ctx, tx, lane.Projector, streams.Observations, topic.ID, topic.Starts); err == nil {
			for _, l := range lanes {
				checkpoints = append(checkpoints, view.Checkpoint{Generation: generation, Partition: l.Partition, TopicID: l.TopicID, Lane: l.ID, Next: l.Next})
			}
			err = view.Start(ctx, tx, checkpoints)
		}
		list = make([]place, len(checkpoints))
		for i, c := range checkpoints {
			list[i] = place{Checkpoint: c, halted: slices.ContainsFunc(lanes, func(l lane.Lane) bool { return l.ID == c.Lane && l.HaltReason != "" })}
		}
		return err
	})
	return list, err
}

// compare halts the places that the log does not hold, as it stood before and after they were read.
func (w *worker) compare(ctx context.Context, list []place, before, after kafka.Topic) error {
	recreated := slices.ContainsFunc(list, func(p place) bool { return p.TopicID != after.ID })
	if have, want := len(before.Starts), len(list); have != want && !recreated {
		return fmt.Errorf("%w: topic %s has %d, the view was projected from %d: make the topic again with %d and restore its records, or check that --kafka names the right cluster",
			ErrPartitions, w.topic, have, want, want)
	}
	for i := range list {
		p := &list[i]
		var h *haltError
		switch {
		case p.halted:
			continue
		case recreated:
			h = &haltError{lane.TopicRecreated, p.Next, p.Next,
				fmt.Errorf("%w: topic %s has id %s, the view was projected from %s: %s", lane.ErrRecreated, w.topic, after.ID, p.TopicID, restore)}
		case before.Starts[i] > p.Next:
			h = &haltError{lane.LogGap, p.Next, before.Starts[i],
				fmt.Errorf("the log begins at offset %d, the checkpoint stands at %d: %s", before.Starts[i], p.Next, restore)}
		case after.Ends[i] < p.Next:
			h = &haltError{lane.LogTruncated, after.Ends[i], p.Next,
				fmt.Errorf("the log ends at offset %d, the checkpoint stands at %d: %s", after.Ends[i], p.Next, restore)}
		default:
			continue
		}
		err := postgres.InTx(ctx, w.pool, postgres.Project, func(tx pgx.Tx) error {
			return lane.Stop(ctx, tx, p.Lane, h.reason, h.from, h.to)
		})
		if err != nil {
			return err
		}
		w.tell(p.Partition, h)
		p.halted = true
	}
	return nil
}
