package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
)

// undoCommand takes claims out of the count.
func (a *app) undoCommand() *cobra.Command {
	var release bool
	cmd := a.claimsCommand("undo", "Take claims out of the count, as if they had never been made",
		"Nothing is removed: evidence and history stay, and redo takes the decision back. Only the offers concerned are computed again.\n"+
			"It prints what is in quarantine because it contradicts these claims, as a revision_conflict; --release sends it through ingest again.",
		streams.UndoType, streams.RunReject, func(ctx context.Context, doc receipt.Document, d decision) error {
			return a.showUndone(ctx, doc, d, release)
		})
	cmd.PersistentFlags().BoolVar(&release, "release", false, "release what is in quarantine because it contradicts these claims")
	return cmd
}

// redoCommand takes them back into it.
func (a *app) redoCommand() *cobra.Command {
	return a.claimsCommand("redo", "Take claims back into the count that undo took out", "", streams.RedoType, streams.RunRelease, a.showCommand)
}

// An undone is a command that took claims out of the count, and what is in quarantine because it contradicts them.
type undone struct {
	receipt.Document
	Conflicts []decidedNow `json:"conflicts"`
}

// showUndone prints an undoing with the conflicts that its claims had caused, and releases them where that is wanted.
func (a *app) showUndone(ctx context.Context, doc receipt.Document, d decision, release bool) error {
	command, err := parseDelivery(doc.Delivery)
	if err != nil {
		return err
	}
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return err
	}
	defer pool.Close()
	var caused []quarantine.Entry
	err = postgres.AsTenant(ctx, pool, postgres.Audit, a.settings.Tenant, func(tx pgx.Tx) (err error) {
		caused, err = quarantine.Caused(ctx, tx, command)
		return err
	})
	if err != nil {
		return err
	}
	conflicts := toDecide(caused)
	if release {
		if err := a.sendEntries(ctx, pool, streams.QuarantineReleaseType, conflicts, d); err != nil {
			return err
		}
	}
	if a.json {
		return show(a, "", []undone{{doc, conflicts}}, nil)
	}
	if err := a.showCommand(ctx, doc, d); err != nil || len(conflicts) == 0 {
		return err
	}
	if !release {
		fmt.Fprintf(a.stderr, "note: %d rows are in quarantine because they contradict these claims: offerlog quarantine release sends them through ingest again\n", len(conflicts))
	}
	return a.showDecided(conflicts)
}

// showCommand prints a command that was carried out.
func (a *app) showCommand(_ context.Context, doc receipt.Document, _ decision) error {
	return show(a, "COMMAND\tEVENT", []receipt.Document{doc}, func(d receipt.Document) string { return cells(d.EventID, d.Where()) })
}

// A done is what follows once a command was carried out.
type done func(ctx context.Context, doc receipt.Document, d decision) error

// claimsCommand is a command that publishes decisions on the claims of a run, a delivery, an observation, a window or a mapping version.
func (a *app) claimsCommand(verb, short, long, kind, kindOfRun string, then done) *cobra.Command {
	delivery := a.decisionCommand(&cobra.Command{
		Use:     "delivery KEY",
		Short:   short + ": those of a delivery",
		Long:    "KEY is a replay key as offerlog deliveries prints it, or a delivery's id. What other deliveries restate counts by them.",
		Example: "  offerlog " + verb + " delivery demo/acme-eu/ACC-1/%2Facme-eu%2Fexport/EXP-8821%2F2 --reason \"wrong file, ticket 4411\"",
		Args:    oneArg("KEY"),
	}, func(_ context.Context, args []string) (string, any, error) {
		id, err := parseDelivery(args[0])
		return kind, ingest.Claims{Delivery: new(uuid.UUID(id))}, err
	}, then)
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
	}, then)
	window := a.decisionCommand(&cobra.Command{
		Use:   "window FROM TO",
		Short: short + ": those of what was accepted from one time to another",
		Long: "FROM and TO each stand for the last recorded moment at or before them, as offers --known-at shows it. What is accepted later is\n" +
			"in no window; a catalogue of which a page is in it is decided about as a whole.",
		Example: "  offerlog " + verb + " window 2026-03-01T08:00:00Z 2026-03-01T09:30:00Z --reason \"wrong price list, ticket 4411\"",
		Args:    cobra.ExactArgs(2),
	}, func(_ context.Context, args []string) (string, any, error) {
		var times [2]offer.Time
		for i, text := range args {
			var err error
			if times[i], err = offer.ParseTime(text); err != nil {
				return "", nil, usage("write it as 2026-03-01T08:00:00Z", "%w", err)
			}
		}
		return kind, ingest.Claims{Window: &ingest.Window{From: times[0], To: times[1]}}, nil
	}, then)
	var feedOf string
	run := a.decisionCommand(&cobra.Command{
		Use:     "run RUN",
		Short:   short + ": those of a run",
		Example: "  offerlog " + verb + " run EXP-8821 --reason \"wrong file, ticket 4411\"",
		Args:    oneArg("RUN"),
	}, func(ctx context.Context, args []string) (string, any, error) {
		found, err := a.findRun(ctx, feedOf, args[0])
		return kindOfRun, map[string]string{"feed": found.Feed, "run": found.Run, "id": found.ID}, err
	}, then)
	run.Flags().StringVar(&feedOf, "feed", "", "the run's feed, where several have a run of that name")
	mappingVersion := a.decisionCommand(&cobra.Command{
		Use:   "mapping-version FEED VERSION",
		Short: short + ": what was read under a mapping version",
		Long: "The newest version left in force reads what comes from then on, and a replay, which has the id of the command's delivery, reads what\n" +
			"was not read under it. offerlog replay list shows how far it is.",
		Example: "  offerlog " + verb + " mapping-version acme-eu 3 --reason \"reads the price of another unit\"",
		Args:    cobra.ExactArgs(2),
	}, func(_ context.Context, args []string) (string, any, error) {
		version, err := strconv.Atoi(args[1])
		if err != nil || version < 1 {
			return "", nil, usage("offerlog feed list shows the one in force", "%q is no mapping version", args[1])
		}
		return kind, ingest.Claims{Mapping: &ingest.MappingVersion{Feed: args[0], Version: version}}, nil
	}, then)
	cmd := group(verb, short, run, delivery, observation, window, mappingVersion)
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
	}, a.showCommand)
}

// decisionCommand completes a command that publishes a decision: what says which command event, and its data.
func (a *app) decisionCommand(cmd *cobra.Command, what func(ctx context.Context, args []string) (kind string, data any, err error), then done) *cobra.Command {
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
		return then(ctx, doc, d)
	}
	d.flags(cmd, &timeout)
	return cmd
}
