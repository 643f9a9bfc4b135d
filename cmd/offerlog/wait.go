package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/settle"
)

func (a *app) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until what stands in the input topics now is in the view",
		Long: "Waits until every input topic is stored up to the end that it has now, until the relay has published what that gave, and\n" +
			"until the projector has passed it. What comes later is not waited for.",
		Example: "  offerlog wait\n  offerlog wait --timeout 5m --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.wait(cmd.Context(), timeout)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "give up after")
	return cmd
}

func (a *app) wait(ctx context.Context, timeout time.Duration) error {
	in, err := a.lookInto(ctx)
	if err != nil {
		return err
	}
	defer in.close()
	if err := checkRoles(ctx, in.pool, []postgres.Role{postgres.Ingest}); err != nil {
		return err // feeds of all tenants say which topics are read
	}
	topics, err := inputTopics(ctx, in.pool)
	if err != nil {
		return err
	}
	topics = append(topics, streams.Commands)
	begin := time.Now()
	bounded, cancel := withTimeout(ctx, timeout)
	defer cancel()
	_, err = settle.Wait(bounded, in.pool, a.settings.Cluster(), topics)
	if errors.Is(bounded.Err(), context.DeadlineExceeded) {
		positions, e := in.positions(ctx, topics)
		if e != nil {
			return e
		}
		return &exitError{exitFailed, "timeout", "run offerlog status: a stage that does not move does not run, or is halted",
			fmt.Errorf("wait: timed out after %s: %s", timeout, shortOf(positions))}
	}
	if err != nil {
		return err
	}
	done := waited{Seconds: time.Since(begin).Round(time.Millisecond).Seconds()}
	if a.json {
		return show(a, "", []waited{done}, nil)
	}
	_, err = fmt.Fprintf(a.stdout, "settled: all that stood in the input topics is in the view (%.1f s)\n", done.Seconds)
	return err
}

// A waited says how long a wait took.
type waited struct {
	Seconds float64 `json:"seconds"`
}
