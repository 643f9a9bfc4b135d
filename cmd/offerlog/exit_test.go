package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
)

func TestExplain(t *testing.T) {
	for name, tt := range map[string]struct {
		err             error
		exit            int
		code, what, how string
	}{
		"nothing is known of it":  {errors.New("a: b: c"), 1, "failed", "a: b: c", ""},
		"a colon is no next step": {errors.New("read x: run"), 1, "failed", "read x: run", ""},
		"the next step ends the text": {fmt.Errorf("%w: topic t: run offerlog topics apply", kafka.ErrNoTopic), 3, "no_topic",
			"no such topic: topic t", "run offerlog topics apply"},
		"of two next steps the last": {errors.New("a: check b: run c"), 1, "failed", "a: check b", "run c"},
		"a hint that is given stays": {fmt.Errorf("wrapped: %w", usage("do that", "a: run b")), 2, "usage", "wrapped: a: run b", "do that"},
		"interrupted":                {fmt.Errorf("wait: %w", context.Canceled), 130, "interrupted", "interrupted", ""},
		"schema":                     {fmt.Errorf("%w: old: run offerlog migrate up", postgres.ErrSchema), 5, "schema_version", "the database schema does not fit: old", "run offerlog migrate up"},
		"partitions":                 {fmt.Errorf("%w: x", lane.ErrPartitions), 5, "fewer_partitions", "the topic has fewer partitions than lanes are known: x", ""},
		"transactions": {fmt.Errorf("%w: transaction.version is 1, 2 is needed: run kafka-features.sh upgrade", kafka.ErrTransactions), 5, "kafka_too_old",
			"the cluster's transactions are too old: transaction.version is 1, 2 is needed", "run kafka-features.sh upgrade"},
		"a password that is wrong": {&pgconn.PgError{Code: "28P01", Message: "no"}, 1, "postgres_refused", ": no (SQLSTATE 28P01)",
			"check user, password and database in --postgres"},
	} {
		t.Run(name, func(t *testing.T) {
			e := explain(tt.err)
			if e.exit != tt.exit || e.code != tt.code || e.Error() != tt.what || e.hint != tt.how {
				t.Errorf("got %d %s %q, hint %q; want %d %s %q, hint %q", e.exit, e.code, e, e.hint, tt.exit, tt.code, tt.what, tt.how)
			}
		})
	}
}
