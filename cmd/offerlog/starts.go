package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/recovery"
)

// A start is what a worker found at a lane and has done about it. Positions are offsets of the partition, or for the relay
// numbers of its lane.
type start struct {
	Kind        string     `json:"kind"` // start
	Stage       string     `json:"stage"`
	Topic       string     `json:"topic"` // by its own name
	Partition   int32      `json:"partition"`
	Number      int64      `json:"number"` // of the starts at this lane, from 1
	Worker      string     `json:"worker"`
	StartedAt   time.Time  `json:"started_at"`
	LeftAt      *time.Time `json:"left_at,omitempty"`
	Predecessor string     `json:"predecessor,omitempty"` // who had the lane before and did not leave it in order
	Checkpoint  int64      `json:"checkpoint"`            // the first position that was not done then
	Until       int64      `json:"until"`                 // the end of what was there to do
	Recognized  int64      `json:"recognized"`            // positions before the checkpoint
	Redone      int64      `json:"redone"`                // positions behind it, by now
	ToRedo      int64      `json:"to_redo"`               // in all
	Results     []string   `json:"results"`               // recognized, redone or both; nothing
	State       string     `json:"state"`                 // complete, working, stalled, left, replaced
}

// starts lists the latest start at each lane, and those after a worker that had died. Something waits where it has done so for longer than
// patience.
func (in *installation) starts(ctx context.Context, positions []standing, patience time.Duration) ([]start, error) {
	now := time.Now()
	var (
		reports []recovery.Report
		waiting map[int]bool  // lanes with events that the relay has not published
		behind  map[int]int64 // how many
	)
	err := inspect(ctx, in.pool, func(tx pgx.Tx) (err error) {
		if reports, err = recovery.List(ctx, tx); err != nil {
			return err
		}
		waiting, behind = map[int]bool{}, map[int]int64{}
		rows, err := tx.Query(ctx, `
			SELECT p.lane, p.sequence - r.published_seq,
			       EXISTS (SELECT FROM audit_v1.commit_journal AS j
			                WHERE j.lane = p.lane AND j.to_seq > r.published_seq AND j.recorded_at < clock_timestamp() - $1::interval)
			  FROM audit_v1.position AS p
			  JOIN audit_v1.relay AS r USING (lane)
			 WHERE p.sequence > r.published_seq`, patience)
		if err != nil {
			return err
		}
		var (
			lane  int
			lag   int64
			waits bool
		)
		_, err = pgx.ForEachRow(rows, []any{&lane, &lag, &waits}, func() error { behind[lane], waiting[lane] = lag, waits; return nil })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the starts: %w", err)
	}
	type place struct {
		stage, topic string
		partition    int32
	}
	at := map[place]standing{}
	var topics []string // on the cluster
	for _, s := range positions {
		at[place{s.Stage, s.Topic, s.Partition}] = s
		topics = append(topics, in.app.settings.Cluster().Topic(s.Topic))
	}
	slices.Sort(topics)
	recent, err := kafka.Since(ctx, in.kafka, now.Add(-patience), slices.Compact(topics))
	if err != nil {
		return nil, err
	}
	var list []start
	for _, r := range reports {
		if !r.Latest && r.Predecessor == "" {
			continue
		}
		lag, waits := behind[r.Lane], waiting[r.Lane]
		if r.Stage != recovery.Relay {
			s := at[place{r.Stage, r.Topic, r.Partition}]
			lag, waits = s.Lag, s.Lag > 0 && s.Next < recent[in.app.settings.Cluster().Topic(r.Topic)][r.Partition]
		}
		s := start{Kind: "start", Stage: r.Stage, Topic: r.Topic, Partition: r.Partition, Number: r.Number, Worker: r.Worker, StartedAt: r.StartedAt, LeftAt: r.LeftAt,
			Predecessor: r.Predecessor, Checkpoint: r.Checkpoint, Until: r.Until, Recognized: r.Recognized(), Redone: r.Redone(), Results: r.Results(),
			State: r.State(now, patience, lag, waits)}
		if r.Predecessor != "" {
			s.ToRedo = r.Until - r.Checkpoint
		}
		list = append(list, s)
	}
	return list, nil
}
