package project

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
)

// A haltError is what one partition cannot get over without an operator: the reason and the range [from, to) go to its lane.
type haltError struct {
	reason   string // lane.LogGap, lane.LogTruncated, lane.TopicRecreated or outbox.InvariantBroken
	from, to int64
	err      error
}

func (e *haltError) Error() string { return e.err.Error() }
func (e *haltError) Unwrap() error { return e.err }

// respond answers the outcome of a batch. Whatever failed, the row of the checkpoint knows what was committed, also where
// the answer to the commit was lost: the batch is dropped and reading goes on from there.
func (w *worker) respond(ctx context.Context, partition int32, err error) error {
	if halt, ok := errors.AsType[*haltError](err); ok {
		return w.halt(ctx, partition, halt)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrFenced):
		w.log.Warn("fenced", "partition", partition, "error", err)
		return w.resume(ctx, partition)
	case passes(err):
		w.log.Warn("out of reach, trying again", "partition", partition, "error", err)
		return w.resume(ctx, partition)
	}
	return err
}

// hear answers an error that the client reports beside the records. What passes, the client repairs by itself.
func (w *worker) hear(ctx context.Context, f kgo.FetchError) error {
	next, held := w.expected(f.Partition)
	loss, lost := errors.AsType[*kgo.ErrDataLoss](f.Err)
	outside := errors.Is(f.Err, kerr.OffsetOutOfRange)
	switch {
	case errors.Is(f.Err, context.Canceled), errors.Is(f.Err, kgo.ErrClientClosed):
		return nil // of the poll, or of a membership that ended
	case (lost || outside) && !held:
		return nil // asked before the partition was halted
	case lost:
		// Records written since the log was cut off stand under offsets that are projected already.
		return w.halt(ctx, f.Partition, &haltError{lane.LogTruncated, loss.ResetTo, next, fmt.Errorf("%w: %s", f.Err, restore)})
	case outside:
		if err := w.look(ctx); err != nil {
			return err
		}
		if _, held := w.expected(f.Partition); held {
			return w.resume(ctx, f.Partition) // the client reads nothing more of it until it is told where
		}
		return nil
	case errors.Is(f.Err, kerr.UnknownTopicID), errors.Is(f.Err, kerr.InconsistentTopicID), errors.Is(f.Err, kerr.UnknownTopicOrPartition):
		if err := w.look(ctx); err != nil {
			return err
		}
	case !passes(f.Err):
		return f.Err
	}
	w.log.Warn("reading failed, trying again", "partition", f.Partition, "error", f.Err)
	return nil
}

// look compares the topic with the checkpoints once more: partitions that are halted by now rest.
func (w *worker) look(ctx context.Context) error {
	list, err := w.places(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range list {
		if p.halted {
			w.rest(p.Partition)
		}
	}
	return nil
}

// halt stops a partition for every worker, until an operator has cleared its lane.
func (w *worker) halt(ctx context.Context, partition int32, h *haltError) error {
	w.mu.Lock()
	w.rest(partition)
	w.mu.Unlock()
	err := w.untilReached(ctx, func() error {
		return postgres.InTx(ctx, w.pool, postgres.Project, func(tx pgx.Tx) error {
			generation, err := view.Active(ctx, tx)
			if err != nil {
				return err
			}
			c, err := view.Lock(ctx, tx, generation, partition)
			if err != nil {
				return err
			}
			return lane.Stop(ctx, tx, c.Lane, h.reason, h.from, h.to) // one that is halted already keeps its reason
		})
	})
	if err == nil {
		w.tell(partition, h)
	}
	return err
}

func (w *worker) tell(partition int32, h *haltError) {
	w.log.Error("partition halted", "topic", w.topic, "partition", partition, "reason", h.reason, "from", h.from, "to", h.to, "error", h.err)
}

// rest reads a partition no further. The caller holds mu.
func (w *worker) rest(partition int32) {
	w.cl.PauseFetchPartitions(map[string][]int32{w.topic: {partition}})
	delete(w.next, partition)
}

// resume goes on from where the checkpoint of a partition stands.
func (w *worker) resume(ctx context.Context, partition int32) error {
	var next int64
	err := w.untilReached(ctx, func() error {
		return postgres.InTx(ctx, w.pool, postgres.Project, func(tx pgx.Tx) error {
			generation, err := view.Active(ctx, tx)
			if err != nil {
				return err
			}
			// Locked, so that a commit that is still under way is waited for.
			c, err := view.Lock(ctx, tx, generation, partition)
			next = c.Next
			return err
		})
	})
	if err != nil {
		return err
	}
	w.expect(partition, next)
	w.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{w.topic: {partition: {Epoch: -1, Offset: next}}})
	w.cfg.Committed() // the batch whose answer was lost may be there
	return nil
}

// untilReached does f again while PostgreSQL or Kafka is out of reach.
func (w *worker) untilReached(ctx context.Context, f func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := f()
		if err != nil && !passes(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, d time.Duration) {
		w.log.Warn("out of reach, trying again", "after", d, "error", err)
	}))
	return err
}

// passes reports an error that goes away by itself. A topic that is not there any more may be being restored.
func passes(err error) bool {
	return errors.Is(err, kafka.ErrNoTopic) || postgres.OutOfReach(err) || kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err)
}

// mirrored hears what became of a mirror of offsets. A mirror that failed is made good by the next one.
func (w *worker) mirrored(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if resp != nil {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	if err != nil {
		w.log.Debug("mirroring offsets to the group failed", "error", err)
	}
}
