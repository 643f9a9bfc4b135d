package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
)

// respond answers what a batch came to. A fault of a delivery is no error and never comes here. A fenced batch, or one whose
// commit is unknown, is dropped and its partitions go on from the checkpoint, which knows; what is out of reach is tried
// again, later and later; anything else ends the worker.
func (w *worker) respond(ctx context.Context, src *source, b *batch, err error, wait *backoff.ExponentialBackOff) error {
	var (
		out    *archiveError
		digest *archive.DigestError
	)
	switch {
	case err == nil:
		wait.Reset()
		return nil
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return nil //nolint:nilerr // the worker was told to stop
	case errors.Is(err, lane.ErrFenced):
		w.stats.fenced.Add(1)
		w.log.Info("fenced: another worker moved a lane of this batch; reading the checkpoint again")
	case errors.As(err, &digest):
		w.log.Error("evidence does not match its digest: nothing is stored until the object is mended", "code", digest.Code(), "object", digest.Object, "err", err)
	case errors.As(err, &out):
		w.log.Warn("the archive is out of reach: nothing is stored, lag grows", "err", err)
	case postgres.OutOfReach(err):
		w.log.Warn("PostgreSQL is out of reach: nothing is stored, lag grows", "err", err)
	default:
		return err
	}
	sleep(ctx, wait.NextBackOff())
	return src.rewind(ctx, b)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
