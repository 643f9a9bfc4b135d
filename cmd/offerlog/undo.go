package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
)

// undoCommand takes claims out of the count.
func (a *app) undoCommand() *cobra.Command {
	return a.claimsCommand("undo", "Take claims out of the count, as if they had never been made",
		"Nothing is removed: evidence and history stay, and redo takes the decision back. Only the offers concerned are computed again.\n"+
			"What claims had kept out, as a revision_conflict, is in offerlog quarantine list and can be released there.",
		streams.UndoType, streams.RunReject)
}

// redoCommand takes them back into it.
func (a *app) redoCommand() *cobra.Command {
	return a.claimsCommand("redo", "Take claims back into the count that undo took out", "", streams.RedoType, streams.RunRelease)
}

// claimsCommand is a command that publishes decisions on the claims of a run, a delivery or an observation.
func (a *app) claimsCommand(verb, short, long, kind, kindOfRun string) *cobra.Command {
	delivery := a.decisionCommand(&cobra.Command{
		Use:     "delivery KEY",
		Short:   short + ": those of a delivery",
		Long:    "KEY is a replay key as offerlog deliveries prints it, or a delivery's id. What other deliveries restate counts by them.",
		Example: "  offerlog " + verb + " delivery demo/acme-eu/ACC-1/%2Facme-eu%2Fexport/EXP-8821%2F2 --reason \"wrong file, ticket 4411\"",
		Args:    oneArg("KEY"),
	}, func(_ context.Context, args []string) (string, any, error) {
		id, err := parseDelivery(args[0])
		return kind, ingest.Claims{Delivery: new(uuid.UUID(id))}, err
	})
	observation := a.decisionCommand(&cobra.Command{
		Use:     "observation ACCOUNT RECORD ID",
		Short:   short + ": an observation and all that restates it",
		Example: "  offerlog " + verb + " observation ACC-1 AX-440-R2 6f9619ff-8b86-5d01-b42d-00c04fc964ff --reason \"typed wrong\"",
		Args:    cobra.ExactArgs(3),
	}, func(_ context.Context, args []string) (string, any, error) {
		id, err := uuid.Parse(args[2])
		if err != nil {
			return "", nil, usage("run offerlog observations for the ids", "%q is no observation's id", args[2])
		}
		return kind, ingest.Claims{Observation: &ingest.Observation{Account: args[0], Record: args[1], ID: id}}, nil
	})
	var feedOf string
	run := a.decisionCommand(&cobra.Command{
		Use:     "run RUN",
		Short:   short + ": those of a run",
		Example: "  offerlog " + verb + " run EXP-8821 --reason \"wrong file, ticket 4411\"",
		Args:    oneArg("RUN"),
	}, func(ctx context.Context, args []string) (string, any, error) {
		found, err := a.findRun(ctx, feedOf, args[0])
		return kindOfRun, map[string]string{"feed": found.Feed, "run": found.Run, "id": found.ID}, err
	})
	run.Flags().StringVar(&feedOf, "feed", "", "the run's feed, where several have a run of that name")
	cmd := group(verb, short, run, delivery, observation)
	cmd.Long = long
	return cmd
}

// feedDecisionCommand is a command that publishes a decision on a feed.
func (a *app) feedDecisionCommand(verb, kind, short, long string) *cobra.Command {
	return a.decisionCommand(&cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Long:    long,
		Example: "  offerlog feed " + verb + " acme-eu --reason \"ticket 4411\"",
		Args:    oneArg("NAME"),
	}, func(_ context.Context, args []string) (string, any, error) {
		return kind, ingest.FeedDecision{Feed: args[0]}, nil
	})
}

// decisionCommand completes a command that publishes a decision: what says which command event, and its data.
func (a *app) decisionCommand(cmd *cobra.Command, what func(ctx context.Context, args []string) (kind string, data any, err error)) *cobra.Command {
	var (
		d       decision
		timeout time.Duration
	)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.needReason(); err != nil {
			return err
		}
		ctx, cancel := withTimeout(cmd.Context(), timeout)
		defer cancel()
		kind, data, err := what(ctx, args)
		if err != nil {
			return err
		}
		doc, err := a.command(ctx, kind, data, d)
		if failed, ok := errors.AsType[*exitError](err); ok && failed.code == offer.ReasonSchemaInvalid {
			return &exitError{exitConflict, "decides_nothing", "correct the command; nothing was changed", failed.err}
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", cmd.CommandPath(), args[0], err)
		}
		return show(a, "COMMAND\tEVENT", []receipt.Document{doc}, func(d receipt.Document) string { return cells(d.EventID, d.Where()) })
	}
	d.flags(cmd, &timeout)
	return cmd
}
