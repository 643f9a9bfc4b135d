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

// A Record is one of an input topic.
type Record struct {
	Topic string // by its own name
	receipt.Position
}

// Stored returns when ingest has stored all of records: their outcomes stand then. It goes by checkpoints, so
// it needs no right on anybody's outcomes; the pool's login reads as auditor. When ctx ends before, the error says what was
// waited for; a halted partition is a HaltedError at once.
func Stored(ctx context.Context, pool postgres.Pool, records []Record) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	missing := ""
	for {
		short, err := firstUnstored(ctx, pool, records)
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

// firstUnstored describes the first of records that ingest has not stored; "" where it has all.
func firstUnstored(ctx context.Context, pool postgres.Pool, records []Record) (string, error) {
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
	for _, r := range records {
		l := lanes[part{r.TopicID, r.Partition}] // none: it has not been read yet
		if l.Next > r.Offset {
			continue
		}
		if l.HaltReason != "" {
			return "", &HaltedError{r.Topic, r.Partition, l.Next, l.HaltReason}
		}
		return fmt.Sprintf("%s/%d is stored up to offset %d, the event stands at %d", r.Topic, r.Partition, l.Next, r.Offset), nil
	}
	return "", nil
}
