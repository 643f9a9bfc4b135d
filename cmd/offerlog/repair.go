package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/streams/relay"
)

// repairLog makes up for what the in-process Kafka may lose of the relay's last transactions when dev is killed: it ends a
// transaction partition by partition, so the cursor may be there and some of the events not.
//
// A relay copies the cursor to PostgreSQL after each transaction, once that was answered and so is whole. Events up to the
// copy are in the log therefore, and only those between the copy and the cursor are in doubt. The cursor is set back to the
// copy, and the relay publishes them again from the outbox, which still has them, since it is pruned up to the copy only.
// Where they were in the log already the log repeats itself, and the projector skips by lane and number what it has.
//
// It runs while no relay does. Killed itself, it is done again at the next start.
func repairLog(ctx context.Context, in *installation, log *slog.Logger) error {
	cluster := in.app.settings.Cluster()
	logged, err := relay.Cursors(ctx, cluster, in.kafka)
	if err != nil {
		return fmt.Errorf("repair the log: %w", err)
	}
	copies := map[int]int64{}
	err = inspect(ctx, in.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT lane, published_seq FROM audit_v1.relay")
		if err != nil {
			return err
		}
		var lane int
		var published int64
		_, err = pgx.ForEachRow(rows, []any{&lane, &published}, func() error { copies[lane] = published; return nil })
		return err
	})
	if err != nil {
		return fmt.Errorf("repair the log: %w", err)
	}
	for _, lane := range slices.Sorted(maps.Keys(logged)) {
		if logged[lane] <= copies[lane] {
			continue
		}
		if err := in.kafka.ProduceSync(ctx, relay.CursorRecord(cluster, lane, copies[lane])).FirstErr(); err != nil {
			return fmt.Errorf("repair the log: set back the cursor of lane %d: %w", lane, err)
		}
		log.Info("publish again what the kill left in doubt", "lane", lane, "from", copies[lane]+1, "to", logged[lane])
	}
	return nil
}
