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
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams/settle"
)

// produceTimeout bounds how long a broker may take to answer; a client by itself would try for ever.
const produceTimeout = 30 * time.Second

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
// expects. It also ends for an event of another tenant, whose outcome is not shown. The pool's login reads as auditor.
func awaitOutcomes(ctx context.Context, pool *pgxpool.Pool, tenant string, records []published) ([]receipt.Document, error) {
	awaited, positions := make([]settle.Record, len(records)), make([]receipt.Position, len(records))
	for i, r := range records {
		positions[i] = receipt.Position{TopicID: r.topicID, Partition: r.Partition, Offset: r.Offset}
		awaited[i] = settle.Record{Topic: r.Topic, Position: positions[i]}
	}
	err := settle.Stored(ctx, pool, awaited)
	halted, isHalted := errors.AsType[*settle.HaltedError](err)
	switch {
	case isHalted:
		return nil, &exitError{exitFailed, halted.Reason, "run offerlog status for the range that the log lacks", err}
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case err != nil && ctx.Err() != nil:
		return nil, &exitError{exitFailed, "timeout", "run offerlog status to see whether ingest moves; what is published stays so, and publishing it again does no harm", err}
	case err != nil:
		return nil, err
	}
	return decided(ctx, pool, tenant, positions)
}

// decided returns the outcomes at positions, of tenant and of what no tenant can be named for.
func decided(ctx context.Context, pool *pgxpool.Pool, tenant string, positions []receipt.Position) (all []receipt.Document, err error) {
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
