package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	runs "github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) runsCommand() *cobra.Command {
	var f runs.Filter
	list := &cobra.Command{
		Use:   "list",
		Short: "Print the runs of connectors and how each stands, the newest first",
		Long: "A run is complete once each of its pages is accepted, whatever its connector says. It is failed where a page that is missing\n" +
			"could not be fetched, stalled where nothing has come of it for longer than its feed's policy.run_timeout, held where the\n" +
			"brake waits for a decision, rejected where an operator has taken it out, and else incomplete.",
		Example: "  offerlog runs list\n  offerlog runs list --feed acme-eu --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			found, err := a.findRuns(cmd.Context(), f)
			if err != nil {
				return err
			}
			a.atMost(len(found), f.Limit)
			return show(a, "FEED\tRUN\tSTATE\tPAGES\tMISSING\tSTARTED\tLAST SEEN", found, func(d runs.Document) string {
				return cells(d.Feed, d.Run, string(d.State), pagesSeen(&d), ranges(d.PagesMissing), second(d.StartedAt), second(d.LastSeenAt))
			})
		},
	}
	list.Flags().StringVar(&f.Feed, "feed", "", "only of this feed")
	list.Flags().IntVar(&f.Limit, "limit", 100, "at most so many")
	var feedOf string
	one := &cobra.Command{
		Use:     "show RUN",
		Short:   "Print a run: its pages, what failed, and what was decided",
		Example: "  offerlog runs show EXP-8821\n  offerlog runs show EXP-8821 --feed acme-eu --json",
		Args:    oneArg("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.findRun(cmd.Context(), feedOf, args[0])
			if err != nil {
				return err
			}
			return a.showRun(d)
		},
	}
	one.Flags().StringVar(&feedOf, "feed", "", "the run's feed, where several have a run of that name")
	return group("runs", "Look at the runs of connectors and decide about them", list, one,
		a.decideRunCommand("release", streams.RunRelease, "Have what a run claims count",
			"A run that is whole, and that the brake holds, counts as if it had never been held; the brake holds it never again. Of one of\n"+
				"which pages are missing what is there counts, and is flagged partial_run until the rest comes."),
		a.decideRunCommand("reject", streams.RunReject, "Have nothing of what a run claims count",
			"What the run claims stays in history and is shown no more; pages that still come change nothing. Release takes it back."))
}

// decideRunCommand is a command that publishes a decision on a run.
func (a *app) decideRunCommand(verb, kind, short, long string) *cobra.Command {
	var (
		d       decision
		timeout time.Duration
		feedOf  string
	)
	cmd := &cobra.Command{
		Use:     verb + " RUN",
		Short:   short,
		Long:    long,
		Example: "  offerlog runs " + verb + " EXP-8821 --reason \"checked with the supplier\"",
		Args:    oneArg("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.reason == "" {
				return usage("whoever reads the decision later wants to know", "--reason is needed")
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			found, err := a.findRun(ctx, feedOf, args[0])
			if err != nil {
				return err
			}
			doc, err := a.command(ctx, kind, map[string]string{"feed": found.Feed, "run": found.Run, "id": found.ID}, d)
			if failed, ok := errors.AsType[*exitError](err); ok && failed.code == offer.ReasonSchemaInvalid {
				return &exitError{exitConflict, "decides_nothing", "run offerlog runs show " + found.Run, failed.err}
			}
			if err != nil {
				return fmt.Errorf("%s run %s: %w", verb, found.Run, err)
			}
			if found, err = a.findRun(ctx, found.Feed, found.Run); err != nil {
				return err
			}
			return show(a, "FEED\tRUN\tSTATE\tEVENT", []decidedRun{{found, doc.Standpoint}}, func(r decidedRun) string {
				return cells(r.Feed, r.Run, string(r.State), r.Event.Where())
			})
		},
	}
	cmd.Flags().StringVar(&feedOf, "feed", "", "the run's feed, where several have a run of that name")
	d.flags(cmd, &timeout)
	return cmd
}

// A decidedRun is a run after a decision, with the event that brought it.
type decidedRun struct {
	runs.Document
	Event receipt.Standpoint `json:"event"`
}

func (a *app) findRuns(ctx context.Context, f runs.Filter) (found []runs.Document, err error) {
	err = a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) error {
		found, err = runs.List(ctx, tx, f, time.Now())
		return err
	})
	return found, err
}

// findRun returns the one run of a name.
func (a *app) findRun(ctx context.Context, feed, name string) (runs.Document, error) {
	found, err := a.findRuns(ctx, runs.Filter{Feed: feed, Name: name, Limit: 2})
	switch {
	case err != nil:
		return runs.Document{}, err
	case len(found) == 0:
		return runs.Document{}, &exitError{exitNotFound, "no_run", "run offerlog runs list for the tenant's runs", fmt.Errorf("no run %q", name)}
	case len(found) > 1:
		return runs.Document{}, usage("name the feed with --feed", "feeds %s and %s both have a run %q", found[0].Feed, found[1].Feed, name)
	}
	return found[0], nil
}

func (a *app) showRun(d runs.Document) error {
	if a.json {
		return show(a, "", []runs.Document{d}, nil)
	}
	lines := []line{{"feed", d.Feed}, {"connector", d.Connector}, {"run", d.Run}, {"state", string(d.State)}, {"started", d.StartedAt},
		{"credential", d.Credential}, {"pages asked for", number(d.PagesAsked)}, {"pages", pagesSeen(&d)}, {"pages seen", ranges(d.PagesSeen)},
		{"pages missing", ranges(d.PagesMissing)}, {"completed", d.CompletedAt}, {"last seen", d.LastSeenAt}}
	for _, f := range d.Failures {
		what := "the run"
		if f.Page > 0 {
			what = "page " + decimal(int64(f.Page))
		}
		if f.Attempt > 0 {
			what += ", attempt " + decimal(int64(f.Attempt))
		}
		lines = append(lines, line{"failed", what + ", " + f.At + ": " + f.Error})
	}
	for _, r := range d.Deliveries {
		rejected := ""
		if r.Rejected > 0 {
			rejected = fmt.Sprintf(", %d rows rejected", r.Rejected)
		}
		lines = append(lines, line{"page " + decimal(int64(r.Page)), r.Delivery + rejected})
	}
	for _, x := range d.Decisions {
		by := ""
		if x.Actor != "" {
			by = " by " + x.Actor
		}
		if x.Reason != "" {
			by += ": " + x.Reason
		}
		lines = append(lines, line{string(x.Verdict), x.RecordedAt + by})
	}
	return a.showLines("RUN\t", lines)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// pagesSeen is how many pages are there, of how many.
func pagesSeen(d *runs.Document) string {
	if d.Pages == 0 {
		return decimal(int64(len(d.PagesSeen))) + " of ?"
	}
	return fmt.Sprintf("%d of %d", d.Pages-len(d.PagesMissing), d.Pages)
}

// ranges writes rising numbers as 1-3,7.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		part := strconv.Itoa(numbers[first])
		if i-first > 1 {
			part += "-" + strconv.Itoa(numbers[i-1])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
