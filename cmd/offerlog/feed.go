package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) feedCommand() *cobra.Command {
	var (
		d       decision
		dryRun  bool
		timeout time.Duration
	)
	apply := &cobra.Command{
		Use:   "apply FILE",
		Short: "Register a feed, or its new settings",
		Long: "Checks a feed file here, publishes it as a command event with an id of its own, and waits for what becomes of it. The file\n" +
			"names the tenant. Applying a feed that is in force already changes nothing.",
		Example: "  offerlog feed apply acme-eu/feed.yaml --reason \"ticket 4411\"\n  offerlog feed apply acme-eu/feed.yaml --dry-run",
		Args:    oneArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := readFeed(args[0])
			if err != nil {
				return err
			}
			if dryRun {
				return a.showSpec(spec)
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.applyFeed(ctx, spec, d)
		},
	}
	d.flags(apply, &timeout)
	apply.Flags().BoolVar(&dryRun, "dry-run", false, "only check the file and print what would be applied")
	list := &cobra.Command{
		Use:     "list",
		Short:   "Print the tenant's feeds",
		Example: "  offerlog feed list\n  offerlog feed list --tenant demo --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var feeds []feed.Registered
			err := a.asTenant(cmd.Context(), postgres.Read, func(tx pgx.Tx) (err error) {
				feeds, err = feed.List(cmd.Context(), tx)
				return err
			})
			if err != nil {
				return err
			}
			return show(a, "FEED\tMAPPING\tORDER\tSOURCE\tTOPICS\tAPPLIED", feeds, func(r feed.Registered) string {
				return cells(r.Feed, decimal(int64(r.MappingVersion)), r.Order, r.Source, strings.Join(r.Topics, ","), r.AppliedAt.UTC().Format(time.RFC3339))
			})
		},
	}
	one := &cobra.Command{
		Use:     "show NAME",
		Short:   "Print a feed as it was applied, with the defaults",
		Example: "  offerlog feed show acme-eu\n  offerlog feed show acme-eu --json",
		Args:    oneArg("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var r feed.Registered
			err := a.asTenant(cmd.Context(), postgres.Read, func(tx pgx.Tx) (err error) {
				r, err = findFeed(cmd.Context(), tx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return show(a, "", []feed.Registered{r}, nil)
			}
			return a.showSpec(r.Spec)
		},
	}
	return group("feed", "Register feeds and look at them", apply, a.feedTestCommand(), a.feedNewCommand(), list, one,
		a.feedDecisionCommand("suspend", streams.FeedSuspendType, "Have nothing that a feed claims count until it is resumed",
			"Deliveries are still accepted and kept. Offers show the next best claim, or none."),
		a.feedDecisionCommand("resume", streams.FeedResumeType, "Have what a suspended feed claims count again", ""))
}

// readFeed reads and checks a feed file.
func readFeed(name string) (feed.Spec, error) {
	spec, err := feed.ParseFile(name)
	if invalid, ok := errors.AsType[*feed.InvalidError](err); ok {
		return spec, &exitError{exitUsage, invalid.Code(), "correct the file; nothing was published", err}
	}
	if err != nil {
		return spec, usage("check the name of the file", "%w", err)
	}
	return spec, nil
}

// findFeed returns a feed of the transaction's tenant.
func findFeed(ctx context.Context, tx pgx.Tx, name string) (feed.Registered, error) {
	r, err := feed.Show(ctx, tx, name)
	if errors.Is(err, feed.ErrUnknown) {
		return r, &exitError{exitNotFound, "no_feed", "run offerlog feed list for the tenant's feeds", fmt.Errorf("%w: %q", feed.ErrUnknown, name)}
	}
	return r, err
}

// showSpec prints a feed as a feed file.
func (a *app) showSpec(s feed.Spec) error {
	if a.json {
		return show(a, "", []feed.Spec{s}, nil)
	}
	b, err := s.JSON()
	if err == nil {
		b, err = yaml.JSONToYAML(b)
	}
	if err != nil {
		return fmt.Errorf("print feed %s: %w", s.Feed, err)
	}
	_, err = a.stdout.Write(b)
	return err
}

// An applied feed is what became of the command.
type applied struct {
	Command        string `json:"command"` // the event's id
	Tenant         string `json:"tenant"`
	Feed           string `json:"feed"`
	MappingVersion int    `json:"mapping_version"`
	Changed        bool   `json:"changed"` // false: it was in force already
	receipt.Standpoint
	Outcome offer.Outcome `json:"outcome"`
}

// applyFeed applies a spec on the servers of the settings and prints the outcome.
func (a *app) applyFeed(ctx context.Context, spec feed.Spec, d decision) error {
	if origin := a.origins["tenant"]; a.settings.Tenant != "" && a.settings.Tenant != spec.Tenant {
		return &exitError{exitNotAllowed, "other_tenant", "use the file's tenant, or correct the file",
			fmt.Errorf("feed %s is of tenant %s, and the tenant is set to %s (%s)", spec.Feed, spec.Tenant, a.settings.Tenant, origin)}
	}
	a.settings.Tenant = spec.Tenant
	a.findDev()
	cl, err := a.openKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return err
	}
	defer pool.Close()
	result, err := a.commandFeed(ctx, cl, pool, spec, d)
	if err != nil {
		return err
	}
	for _, topic := range spec.Accepts.Topics {
		if _, err := kafka.Describe(ctx, cl, a.settings.Cluster().Topic(topic), false); errors.Is(err, kafka.ErrNoTopic) {
			fmt.Fprintf(a.stderr, "note: topic %s is not there yet: run offerlog topics apply\n", topic)
		}
	}
	return show(a, "FEED\tTENANT\tMAPPING\tOUTCOME\tEVENT\tCOMMAND", []applied{result}, func(r applied) string {
		outcome := string(r.Outcome)
		if !r.Changed {
			outcome += " (was in force)"
		}
		return cells(r.Feed, r.Tenant, decimal(int64(r.MappingVersion)), outcome, r.Where(), r.Command)
	})
}

// commandFeed publishes the command that applies a feed and returns its outcome. A refusal is an error with its fault.
func (a *app) commandFeed(ctx context.Context, cl *kgo.Client, pool *pgxpool.Pool, spec feed.Spec, d decision) (applied, error) {
	payload, err := spec.JSON()
	if err != nil {
		return applied{}, err
	}
	doc, err := sendCommand(ctx, cl, a.settings.Cluster(), pool, spec.Tenant, streams.FeedApplyType, payload, d)
	if err != nil {
		return applied{}, fmt.Errorf("apply feed %s: %w", spec.Feed, err)
	}
	result := applied{Command: doc.EventID, Tenant: spec.Tenant, Feed: spec.Feed, MappingVersion: spec.Mapping.Version, Standpoint: doc.Standpoint, Outcome: doc.Outcome}
	err = postgres.AsTenant(ctx, pool, postgres.Audit, spec.Tenant, func(tx pgx.Tx) error {
		r, err := findFeed(ctx, tx, spec.Feed)
		result.Changed = r.Delivery.String() == doc.Delivery
		return err
	})
	return result, err
}
