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

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
)

// respond answers the outcome of a batch. Whatever failed, the row of the checkpoint knows what was committed, also where
// the answer to the commit was lost: the batch is dropped and reading goes on from there.
func (w *worker) respond(ctx context.Context, partition int32, err error) error {
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
	switch {
	case errors.Is(f.Err, context.Canceled), errors.Is(f.Err, kgo.ErrClientClosed):
		return nil // of the poll, or of a membership that ended
	case errors.Is(f.Err, kerr.OffsetOutOfRange):
		if _, err := w.checkpoints(ctx); err != nil {
			return err
		}
		return fmt.Errorf("read %s/%d at the checkpoint, offset %d: %w: the log ends before it: restore the topic", w.topic, f.Partition,
			w.expected(f.Partition), f.Err)
	case errors.Is(f.Err, kerr.UnknownTopicID), errors.Is(f.Err, kerr.UnknownTopicOrPartition):
		if _, err := w.checkpoints(ctx); err != nil {
			return err // deleted, or made again
		}
	case !passes(f.Err):
		return f.Err
	}
	w.log.Warn("reading failed, trying again", "partition", f.Partition, "error", f.Err)
	return nil
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

// passes reports an error that goes away by itself.
func passes(err error) bool {
	return postgres.OutOfReach(err) || kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err)
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
