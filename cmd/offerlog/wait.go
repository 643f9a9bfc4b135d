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
			a.findDev()
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.wait(ctx)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "give up after")
	return cmd
}

func (a *app) wait(ctx context.Context) error {
	in, err := a.lookInto(context.WithoutCancel(ctx))
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
	begin := time.Now()
	_, err = settle.Wait(ctx, in.pool, a.settings.Cluster(), append(topics, streams.Commands))
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return &exitError{exitFailed, "timeout", "run offerlog status; a stage that does not move is not running, or halted", errors.Join(err, in.shortfall(context.WithoutCancel(ctx)))}
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
