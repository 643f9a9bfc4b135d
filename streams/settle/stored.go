package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
)

// A HaltedError names the partition that no longer moves. It is an ErrHalted.
type HaltedError struct {
	Topic     string // by its own name
	Partition int32
	Next      int64 // the first offset that is not stored
	Reason    string
}

func (e *HaltedError) Error() string {
	return fmt.Sprintf("%s/%d is halted at offset %d: %s", e.Topic, e.Partition, e.Next, e.Reason)
}

func (e *HaltedError) Unwrap() error { return ErrHalted }

// Stored returns when ingest has stored the records at all of positions: their outcomes stand then. It goes by checkpoints, so
// it needs no right on anybody's outcomes; the pool's login reads as auditor. When ctx ends before, the error says what was
// waited for; a halted partition is a HaltedError at once.
func Stored(ctx context.Context, pool postgres.Pool, positions []receipt.Position) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	missing := ""
	for {
		short, err := firstUnstored(ctx, pool, positions)
		switch {
		case ctx.Err() != nil && !errors.Is(err, ErrHalted):
			if missing == "" {
				missing = "nothing was seen of them"
			}
			return fmt.Errorf("wait for outcomes: %w: %s", context.Cause(ctx), missing)
		case err != nil:
			return fmt.Errorf("wait for outcomes: %w", err)
		case short == "":
			return nil
		}
		missing = short
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// firstUnstored describes the first of positions that ingest has not stored; "" where it has all.
func firstUnstored(ctx context.Context, pool postgres.Pool, positions []receipt.Position) (string, error) {
	type part struct {
		topic     uuid.UUID
		partition int32
	}
	lanes := map[part]lane.Lane{}
	err := postgres.AsTenant(ctx, pool, postgres.Audit, "", func(tx pgx.Tx) error {
		list, err := lane.List(ctx, tx, lane.Input, "")
		for _, l := range list {
			lanes[part{l.TopicID, l.Partition}] = l
		}
		return err
	})
	if err != nil {
		return "", err
	}
	for _, p := range positions {
		l, known := lanes[part{p.TopicID, p.Partition}]
		switch {
		case !known:
			return fmt.Sprintf("partition %d of topic id %s has not been read yet", p.Partition, p.TopicID), nil
		case l.Next > p.Offset:
		case l.HaltReason != "":
			return "", &HaltedError{l.Topic, l.Partition, l.Next, l.HaltReason}
		default:
			return fmt.Sprintf("%s/%d is stored up to offset %d, the event stands at %d", l.Topic, l.Partition, l.Next, p.Offset), nil
		}
	}
	return "", nil
}
