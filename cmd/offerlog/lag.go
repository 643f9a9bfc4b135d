package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams"
)

// A lag is how far a stage trails what it reads.
type lag struct {
	records int64
	age     time.Duration // of the oldest that is not done
}

// A position is where a stage stands in a partition of a topic.
type position struct {
	Topic     string
	Partition int32
	Next      int64
}

// lags measures each stage against the committed ends of what it reads. PostgreSQL is asked before Kafka: an end that
// grows meanwhile counts as lag, which it is.
func lags(ctx context.Context, cl *kgo.Client, cluster kafka.Cluster, pool *pgxpool.Pool, now time.Time) (map[string]lag, error) {
	var (
		inputs, observations []position
		unpublished          int64
		waitingSince         *time.Time
	)
	err := inspect(ctx, pool, func(tx pgx.Tx) error {
		var err error
		if inputs, err = positions(ctx, tx, `SELECT topic, partition, next FROM audit_v1.position WHERE kind = 'input' AND retired_at IS NULL`); err != nil {
			return err
		}
		if observations, err = positions(ctx, tx, `
			SELECT $1::text, c.partition, c.next
			  FROM audit_v1.checkpoint AS c
			  JOIN audit_v1.generation AS g ON g.id = c.generation AND g.active`, streams.Observations); err != nil {
			return err
		}
		// The journal is read backwards, from a lane's newest commit to the last that is published whole: the one after it
		// holds the oldest event that waits.
		return tx.QueryRow(ctx, `
			SELECT coalesce(sum(p.sequence - coalesce(r.published_seq, 0)), 0)::bigint, min(waiting.recorded_at)
			  FROM audit_v1.position AS p
			  LEFT JOIN audit_v1.relay AS r USING (lane)
			  LEFT JOIN LATERAL (
			       SELECT j.from_offset
			         FROM audit_v1.commit_journal AS j
			        WHERE j.lane = p.lane AND j.to_seq <= coalesce(r.published_seq, 0)
			        ORDER BY j.from_offset DESC
			        LIMIT 1) AS done ON true
			  LEFT JOIN LATERAL (
			       SELECT j.recorded_at
			         FROM audit_v1.commit_journal AS j
			        WHERE j.lane = p.lane AND j.from_offset > coalesce(done.from_offset, -1)
			        ORDER BY j.from_offset
			        LIMIT 1) AS waiting ON true
			 WHERE p.sequence > coalesce(r.published_seq, 0)`).Scan(&unpublished, &waitingSince)
	})
	if err != nil {
		return nil, fmt.Errorf("measure lag: %w", err)
	}
	relay := lag{records: unpublished}
	if waitingSince != nil {
		relay.age = max(0, now.Sub(*waitingSince))
	}
	result := map[string]lag{roleRelay: relay}
	for stage, at := range map[string][]position{roleIngest: inputs, roleProject: observations} {
		l, err := behind(ctx, cl, cluster, at, now)
		if err != nil {
			return result, fmt.Errorf("measure lag of %s: %w", stage, err)
		}
		result[stage] = l
	}
	return result, nil
}

func positions(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]position, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[position])
}

// behind compares positions with the committed ends of their partitions.
func behind(ctx context.Context, cl *kgo.Client, cluster kafka.Cluster, at []position, now time.Time) (lag, error) {
	ends := map[string][]int64{}
	undone := map[string]map[int32]kgo.Offset{}
	var l lag
	for _, p := range at {
		topic := cluster.Topic(p.Topic)
		if _, ok := ends[topic]; !ok {
			t, err := kafka.Describe(ctx, cl, topic, true)
			if err != nil {
				return lag{}, err
			}
			ends[topic] = t.Ends
		}
		if int(p.Partition) >= len(ends[topic]) || p.Next >= ends[topic][p.Partition] {
			continue
		}
		l.records += ends[topic][p.Partition] - p.Next
		if undone[topic] == nil {
			undone[topic] = map[int32]kgo.Offset{}
		}
		undone[topic][p.Partition] = kgo.NewOffset().At(p.Next)
	}
	oldest, err := oldestRecord(ctx, cluster, undone)
	if err != nil {
		return lag{}, err
	}
	if !oldest.IsZero() {
		l.age = max(0, now.Sub(oldest))
	}
	return l, nil
}

// oldestRecord reads the record at each offset and returns the least of their times; zero where there is no offset.
func oldestRecord(ctx context.Context, cluster kafka.Cluster, at map[string]map[int32]kgo.Offset) (oldest time.Time, err error) {
	left := 0
	for _, partitions := range at {
		left += len(partitions)
	}
	if left == 0 {
		return oldest, nil
	}
	cl, err := cluster.NewClient(kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // a marker may be all that is left to read
		kgo.FetchMaxPartitionBytes(1<<16))
	if err != nil {
		return oldest, err
	}
	defer cl.Close()
	seen := map[string]map[int32]bool{}
	for left > 0 {
		fetched := cl.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return oldest, err
		}
		fetched.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 || seen[p.Topic][p.Partition] {
				return
			}
			if seen[p.Topic] == nil {
				seen[p.Topic] = map[int32]bool{}
			}
			seen[p.Topic][p.Partition] = true
			left--
			if first := p.Records[0].Timestamp; oldest.IsZero() || first.Before(oldest) {
				oldest = first
			}
		})
	}
	return oldest, nil
}

// openQuarantine counts what waits for a decision.
func openQuarantine(ctx context.Context, pool *pgxpool.Pool) (counts map[string]int, err error) {
	counts = map[string]int{}
	err = inspect(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT reason, count(*) FROM audit_v1.quarantine WHERE state = 'open' GROUP BY reason`)
		if err != nil {
			return err
		}
		var reason string
		var n int
		_, err = pgx.ForEachRow(rows, []any{&reason, &n}, func() error { counts[reason] = n; return nil })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count quarantine: %w", err)
	}
	return counts, nil
}
