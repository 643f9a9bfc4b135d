package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams"
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
	logged, err := relayCursors(ctx, cluster, in.kafka)
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
		value, err := json.Marshal(relayCursor{lane, copies[lane]})
		if err != nil {
			return fmt.Errorf("repair the log: %w", err)
		}
		rec := &kgo.Record{Topic: cluster.Topic(streams.RelayCursor), Key: []byte(strconv.Itoa(lane)), Value: value}
		if err := in.kafka.ProduceSync(ctx, rec).FirstErr(); err != nil {
			return fmt.Errorf("repair the log: set back the cursor of lane %d: %w", lane, err)
		}
		log.Info("publish again what the kill left in doubt", "lane", lane, "from", copies[lane]+1, "to", logged[lane])
	}
	return nil
}

// A relayCursor is a record of the topic offerlog-relay-cursor, as the relay writes it.
type relayCursor struct {
	Lane      int   `json:"lane"`
	Published int64 `json:"published"`
}

// relayCursors reads the committed cursor of every lane.
func relayCursors(ctx context.Context, cluster kafka.Cluster, cl *kgo.Client) (map[int]int64, error) {
	topic := cluster.Topic(streams.RelayCursor)
	t, err := kafka.Describe(ctx, cl, topic, true)
	if err != nil {
		return nil, err
	}
	cursors := map[int]int64{}
	if t.Starts[0] >= t.Ends[0] {
		return cursors, nil
	}
	reader, err := cluster.NewClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(t.Starts[0])}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(250*time.Millisecond),
		kgo.KeepControlRecords()) // the end is mostly a marker
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for next := t.Starts[0]; next < t.Ends[0]; {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		for r := range fetched.RecordsAll() {
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				continue
			}
			var c relayCursor
			if err := json.Unmarshal(r.Value, &c); err != nil {
				return nil, fmt.Errorf("read %s: offset %d: %w", topic, r.Offset, err)
			}
			cursors[c.Lane] = c.Published
		}
	}
	return cursors, nil
}
