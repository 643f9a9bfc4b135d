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

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
)

// respond answers the outcome of a partition's batch, or of its fetch. Whatever failed, the row of the checkpoint knows what
// was committed, also where the answer to the commit was lost: the batch is dropped and reading goes on from there.
func (s *Stage) respond(ctx context.Context, cl *kgo.Client, partition int32, err error) error {
	var session *kgo.ErrGroupSession
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.OffsetOutOfRange):
		return fmt.Errorf("read %s/%d at the checkpoint, offset %d: %w: records are missing from the log: restore the topic",
			s.topic, partition, s.expected(partition), err)
	case errors.Is(err, ErrFenced), errors.Is(err, lane.ErrFenced):
		s.log.Warn("fenced", "partition", partition, "error", err)
		return s.resume(ctx, cl, partition)
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return nil // of the poll, or of a group session that ended: the client tries again by itself
	case errors.As(err, &session) && passes(err):
		s.log.Warn("joining the group failed, trying again", "error", err)
		return nil
	case passes(err):
		s.log.Warn("out of reach, trying again", "partition", partition, "error", err)
		return s.resume(ctx, cl, partition)
	}
	return err
}

// resume goes on from where the checkpoint of a partition stands.
func (s *Stage) resume(ctx context.Context, cl *kgo.Client, partition int32) error {
	var next int64
	err := s.untilReached(ctx, func() error {
		return postgres.InTx(ctx, s.pool, postgres.Project, func(tx pgx.Tx) error {
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
	s.expect(partition, next)
	cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.topic: {partition: {Epoch: -1, Offset: next}}})
	s.cfg.Committed() // the batch whose answer was lost may be there
	return nil
}

// untilReached does f again while PostgreSQL or Kafka is out of reach.
func (s *Stage) untilReached(ctx context.Context, f func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := f()
		if err != nil && !passes(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, d time.Duration) {
		s.log.Warn("out of reach, trying again", "after", d, "error", err)
	}))
	return err
}

// passes reports an error that goes away by itself.
func passes(err error) bool {
	return postgres.OutOfReach(err) || kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err)
}

// mirrored hears what became of a mirror of offsets. A mirror that failed is made good by the next one.
func (s *Stage) mirrored(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if resp != nil {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	if err != nil {
		s.log.Debug("mirroring offsets to the group failed", "error", err)
	}
}
