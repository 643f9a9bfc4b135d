package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) topicsCommand() *cobra.Command {
	return group("topics", "Plan and make the topics",
		&cobra.Command{
			Use:     "plan",
			Short:   "Compare the cluster with what is wanted; changes nothing",
			Example: "  offerlog topics plan --kafka localhost:9092\n  offerlog topics plan --json",
			Args:    noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withPlan(cmd.Context(), func(*kgo.Client, []kafka.Change) error { return nil })
			},
		},
		&cobra.Command{
			Use:     "apply",
			Short:   "Make missing topics and set settings; never changes partitions",
			Example: "  offerlog topics apply --kafka localhost:9092 --partitions 12\n  offerlog topics apply --json",
			Args:    noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withPlan(cmd.Context(), func(cl *kgo.Client, plan []kafka.Change) error { return applyTopics(cmd.Context(), cl, plan) })
			},
		})
}

// applyTopics carries a plan out; partitions that differ are a conflict.
func applyTopics(ctx context.Context, cl *kgo.Client, plan []kafka.Change) error {
	err := kafka.Apply(ctx, cl, plan)
	if err != nil && slices.ContainsFunc(plan, func(c kafka.Change) bool { return c.Action == kafka.Refuse }) {
		return &exitError{exitConflict, "partitions_differ", "", err}
	}
	return err
}

// withPlan makes the plan, hands it to f, and prints it where f succeeds. The topics of feeds are part of it where a
// database is named.
func (a *app) withPlan(ctx context.Context, f func(*kgo.Client, []kafka.Change) error) error {
	a.findDev()
	cl, err := a.openKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	inputs := []string{streams.Deliveries}
	if a.settings.Postgres != "" {
		pool, err := a.openPostgres(ctx)
		if err != nil {
			return err
		}
		defer pool.Close()
		if inputs, err = inputTopics(ctx, pool); err != nil {
			return err
		}
	}
	n := a.settings.Partitions
	plan, err := kafka.Plan(ctx, cl, a.settings.Cluster().Specs(streams.OwnTopics(n), inputs, n))
	if err != nil {
		return err
	}
	if err := f(cl, plan); err != nil {
		return err
	}
	return show(a, "TOPIC\tACTION\tPARTITIONS\tSET", plan, func(c kafka.Change) string {
		partitions := fmt.Sprint(c.Want)
		if c.Action == kafka.Refuse {
			partitions = fmt.Sprintf("%d, has %d", c.Want, c.Have)
		}
		var set []string
		for _, k := range slices.Sorted(maps.Keys(c.Set)) {
			set = append(set, k+"="+c.Set[k])
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s", c.Topic, c.Action, partitions, strings.Join(set, " "))
	})
}
