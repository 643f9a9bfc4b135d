package ingest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
)

// respond answers what a batch came to. A fault of a delivery is no error and never comes here. A fenced batch, or one whose
// commit is unknown, is dropped and its partitions go on from the checkpoint, which knows; what is out of reach is tried
// again, later and later and in smaller batches; what the database refuses for its content is taken record by record, and set
// aside if it stays so; anything else ends the worker.
func (w *worker) respond(ctx context.Context, src *source, b *batch, err error) error {
	var (
		out    *archiveError
		digest *archive.DigestError
		spool  *spoolError
	)
	switch {
	case err == nil:
		w.pace.succeeded(b.records)
		return nil
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return nil //nolint:nilerr // the worker was told to stop
	case errors.Is(err, lane.ErrFenced):
		w.stats.fenced.Add(1)
		w.log.Info("fenced: another worker moved a lane of this batch; reading the checkpoint again")
	case errors.As(err, &digest):
		w.log.Error("evidence does not match its digest: nothing is stored until the object is mended", "code", digest.Code(), "object", digest.Object, "error", err)
	case errors.As(err, &out):
		w.log.Warn("the archive is out of reach: nothing is stored, lag grows", "error", err)
	case errors.As(err, &spool):
		w.log.Warn("data that an event names cannot be kept while it is read: nothing is stored, lag grows", "error", err)
	case postgres.OutOfReach(err):
		w.log.Warn("PostgreSQL is out of reach: nothing is stored, lag grows", "error", err)
	case postgres.Refused(err) && b.condemned == "":
		w.log.Warn("the database refuses a batch for what is in it: its records are taken one by one", "records", b.records, "error", err)
		w.pace.refused(b.records)
	default:
		return errors.Join(err, w.forgive(ctx, b))
	}
	sleep(ctx, w.pace.failed())
	return src.rewind(ctx, b)
}

// forgive takes back what was counted against the lanes of a batch: the worker ends with an error that is no record's fault.
func (w *worker) forgive(ctx context.Context, b *batch) error {
	return postgres.InTx(context.WithoutCancel(ctx), w.pool, postgres.Ingest, func(tx pgx.Tx) error {
		return lane.Forgive(ctx, tx, slices.Sorted(maps.Keys(b.lanes)))
	})
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
