package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
)

const (
	// produceTimeout bounds how long a broker may take to answer; a client by itself would try for ever.
	produceTimeout = 30 * time.Second
	// outcomePoll is the time between two looks for outcomes.
	outcomePoll = 50 * time.Millisecond
)

// A published record is one that the broker has taken.
type published struct {
	ID        string `json:"id,omitempty"` // of the event, where it has one in binary mode
	Topic     string `json:"topic"`        // by its own name
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`

	topicID uuid.UUID
}

// produce writes records, of topics by their own names, and waits until the broker has them. Where some of them were
// refused, it returns those that were taken beside the error.
func produce(ctx context.Context, cl *kgo.Client, cluster kafka.Cluster, records []*kgo.Record) ([]published, error) {
	ids := map[string]uuid.UUID{} // by the topic's name on the cluster
	for _, r := range records {
		r.Topic = cluster.Topic(r.Topic)
		if _, known := ids[r.Topic]; known {
			continue
		}
		t, err := kafka.Describe(ctx, cl, r.Topic, false)
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		ids[r.Topic] = t.ID
	}
	ctx, cancel := context.WithTimeoutCause(ctx, produceTimeout, fmt.Errorf("the broker did not answer within %s", produceTimeout))
	defer cancel()
	var (
		done   []published
		failed error
	)
	for _, result := range cl.ProduceSync(ctx, records...) {
		r := result.Record
		if result.Err != nil {
			failed = result.Err
			continue
		}
		done = append(done, published{eventID(r), cluster.Name(r.Topic), r.Partition, r.Offset, ids[r.Topic]})
	}
	if failed != nil {
		return done, &exitError{exitFailed, "not_published", "publish the same again: what the broker has taken already is answered as a duplicate",
			fmt.Errorf("publish: the broker has %d of %d records: %w", len(done), len(records), failed)}
	}
	return done, nil
}

func eventID(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == "ce_id" {
			return string(h.Value)
		}
	}
	return ""
}

// awaitOutcomes returns what became of records once all of them are stored: those of tenant, and those that no feed
// expects. It goes by the checkpoints of their partitions, so it also ends for an event of another tenant, whose outcome
// is not shown. The pool's login reads as auditor.
func awaitOutcomes(ctx context.Context, pool *pgxpool.Pool, tenant string, records []published) ([]receipt.Document, error) {
	tick := time.NewTicker(outcomePoll)
	defer tick.Stop()
	missing := ""
	for {
		short, err := unstored(ctx, pool, tenant, records)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil, ctx.Err()
		case ctx.Err() != nil:
			return nil, &exitError{exitFailed, "timeout", "run offerlog status to see whether ingest moves; what is published stays so, and publishing it again does no harm",
				fmt.Errorf("wait for outcomes: %w: %s", context.Cause(ctx), missing)}
		case err != nil:
			return nil, fmt.Errorf("wait for outcomes: %w", err)
		case short == "":
			return decided(ctx, pool, tenant, records)
		}
		missing = short
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// A part is a partition of a topic.
type part struct {
	topic     uuid.UUID
	partition int32
}

// unstored names the first of records that ingest has not stored; "" where it has all.
func unstored(ctx context.Context, pool *pgxpool.Pool, tenant string, records []published) (string, error) {
	lanes := map[part]lane.Lane{}
	err := postgres.AsTenant(ctx, pool, postgres.Audit, tenant, func(tx pgx.Tx) error {
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
		l := lanes[part{r.topicID, r.Partition}]
		if l.Next > r.Offset {
			continue
		}
		if l.HaltReason != "" {
			return "", &exitError{exitFailed, l.HaltReason, "run offerlog status for the range that the log lacks",
				fmt.Errorf("%s/%d is halted at offset %d", r.Topic, r.Partition, l.Next)}
		}
		return fmt.Sprintf("%s/%d is stored up to offset %d, the event stands at %d", r.Topic, r.Partition, l.Next, r.Offset), nil
	}
	return "", nil
}

func decided(ctx context.Context, pool *pgxpool.Pool, tenant string, records []published) (all []receipt.Document, err error) {
	positions := make([]receipt.Position, len(records))
	for i, r := range records {
		positions[i] = receipt.Position{TopicID: r.topicID, Partition: r.Partition, Offset: r.Offset}
	}
	tenants := []string{tenant}
	if tenant != offer.SystemTenant {
		tenants = append(tenants, offer.SystemTenant)
	}
	for _, t := range tenants {
		err := postgres.AsTenant(ctx, pool, postgres.Audit, t, func(tx pgx.Tx) error {
			found, err := receipt.At(ctx, tx, positions)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
