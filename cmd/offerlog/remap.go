package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/pkg/shadow"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
)

// A remapLimit is how much a remap may change and still be carried out.
type remapLimit struct {
	flag, what string
	text       string
	percent    int
}

func (l *remapLimit) read() error {
	n, err := strconv.Atoi(strings.TrimSuffix(l.text, "%"))
	if err != nil || n < 0 || n > 100 || !strings.HasSuffix(l.text, "%") {
		return usage("write it as 10%", "--%s %q is no share", l.flag, l.text)
	}
	l.percent = n
	return nil
}

// check refuses n of total.
func (l *remapLimit) check(n, total int) error {
	if n*100 <= l.percent*total {
		return nil
	}
	return &exitError{exitConflict, "beyond_limits", fmt.Sprintf("look at offerlog remap --dry-run; where that is right, allow it with --%s", l.flag),
		fmt.Errorf("%d of %d %s, and --%s is %s: nothing was changed", n, total, l.what, l.flag, l.text)}
}

func (a *app) remapCommand() *cobra.Command {
	var (
		c                           replayChoice
		d                           decision
		timeout                     time.Duration
		rate                        int
		dryRun                      bool
		vanishing, repriced, unread = remapLimit{flag: "max-vanishing", what: "offers would not be for sale any more"},
			remapLimit{flag: "max-repriced", what: "offers would cost something else"}, remapLimit{flag: "max-unreadable", what: "deliveries could not be read"}
	)
	cmd := &cobra.Command{
		Use:   "remap FEED",
		Short: "Read archived deliveries under another mapping version, where that was wrong which read them",
		Long: "Means the deliveries that were not read under the version: the one in force, or --mapping. Their evidence and the source's own\n" +
			"versions stay as they are; of each delivery only the reading under the newest version in force counts from then on. Going back is\n" +
			"offerlog undo mapping-version, or applying the old program as a new version.\n\n" +
			"With --dry-run it only shows what would come of it: the deliveries are read in a shadow of history that nobody else sees, and what\n" +
			"offers show is compared. Without, it looks at that first, and stops where it is more than the limits allow.",
		Example: "  offerlog remap acme-eu --dry-run\n  offerlog remap acme-eu --from 2026-03-01T00:00:00Z --reason \"price was per 100\" --max-repriced 100%",
		Args:    oneArg("FEED"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.sel.Feed = args[0]
			if err := c.read(cmd); err != nil {
				return err
			}
			if rate < 1 {
				return usage("give deliveries a second, from 1", "--rate %d", rate)
			}
			limits := []*remapLimit{&vanishing, &repriced, &unread}
			for _, l := range limits {
				if err := l.read(); err != nil {
					return err
				}
			}
			if !dryRun {
				if err := d.needReason(); err != nil {
					return err
				}
			}
			p, err := a.previewRemap(cmd.Context(), &c.sel)
			if err != nil {
				return err
			}
			if dryRun {
				return a.showPreview(&p)
			}
			if err := cmp.Or(vanishing.check(p.Vanishes, p.ForSale), repriced.check(p.Repriced, p.ForSale), unread.check(p.Deliveries-p.Reread, p.Deliveries)); err != nil {
				return err
			}
			return a.startReplay(cmd.Context(), ingest.ReplayStart{Selection: c.sel, Rate: rate}, d, timeout)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&c.sel.Mapping, "mapping", 0, "the mapping version; without it the one in force")
	flags.StringVar(&c.sel.Run, "run", "", "deliveries of this run")
	flags.StringVar(&c.sel.Record, "record", "", "deliveries that claim something of this record")
	flags.StringVar(&c.from, "from", "", "deliveries recorded at this time or later (RFC 3339)")
	flags.StringVar(&c.to, "to", "", "deliveries recorded before this time")
	flags.IntVar(&rate, "rate", 500, "deliveries a second at most")
	flags.BoolVar(&dryRun, "dry-run", false, "only show what would come of it")
	flags.StringVar(&vanishing.text, vanishing.flag, "10%", "stop where a greater share of what is for sale would be gone")
	flags.StringVar(&repriced.text, repriced.flag, "50%", "stop where a greater share of what is for sale would cost something else")
	flags.StringVar(&unread.text, unread.flag, "10%", "stop where a greater share of the deliveries could not be read")
	d.flags(cmd, &timeout)
	return cmd
}

// reapplyCommand reads what chosen records were read from under the mapping version in force.
func (a *app) reapplyCommand() *cobra.Command {
	var (
		d       decision
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "reapply FEED RECORD...",
		Short: "Read the deliveries of chosen records under the mapping version in force",
		Long: "Each record is a replay of its own, with who asked for it and why. It is a remap of few records, without its limits; a remap of all\n" +
			"needs none of it. No version of the source is reset: a claim that stands in the way leaves the count by offerlog undo.",
		Example: "  offerlog reapply acme-eu AX-440-R2 AX-441 --reason \"ticket 4411\"",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("name the feed and the records", "offerlog reapply wants a FEED and RECORDs")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.needReason(); err != nil {
				return err
			}
			version, err := a.mappingInForce(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, record := range args[1:] {
				sel := replay.Selection{Feed: args[0], Mapping: version, Record: record}
				if err := a.startReplay(cmd.Context(), ingest.ReplayStart{Selection: sel, Rate: reapplyRate}, d, timeout); err != nil {
					return err
				}
			}
			return nil
		},
	}
	d.flags(cmd, &timeout)
	return cmd
}

// reapplyRate is how many deliveries of a record are read a second.
const reapplyRate = 500

func (a *app) mappingInForce(ctx context.Context, name string) (version int, err error) {
	err = a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) error {
		f, err := feed.Show(ctx, tx, name)
		version = f.MappingVersion
		return err
	})
	return version, err
}

// startReplay begins a replay and follows it.
func (a *app) startReplay(ctx context.Context, start ingest.ReplayStart, d decision, timeout time.Duration) error {
	u, err := a.lookAtTopic(ctx, start.Selection)
	if err != nil {
		return err
	}
	started, cancel := withTimeout(ctx, timeout)
	defer cancel()
	doc, err := a.command(started, streams.ReplayStartType, start, d)
	if err != nil {
		return fmt.Errorf("start a replay: %w", err)
	}
	id, err := uuid.Parse(doc.Delivery)
	if err != nil {
		return fmt.Errorf("start a replay: %w", err)
	}
	return a.followReplay(ctx, id, u)
}

// previewRemap shows on standard error how far it is. Without a mapping version it takes the one in force.
func (a *app) previewRemap(ctx context.Context, sel *replay.Selection) (p ingest.Preview, err error) {
	if sel.Mapping == 0 {
		if sel.Mapping, err = a.mappingInForce(ctx, sel.Feed); err != nil {
			return p, err
		}
	}
	a.findDev()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return p, err
	}
	defer pool.Close()
	ring, err := a.openKeyring()
	if err != nil {
		return p, err
	}
	store, err := a.openStore(a.settings.Archive)
	if err != nil {
		return p, err
	}
	defer func() { _ = store.Close() }() // it was only read
	spool, err := os.MkdirTemp("", "offerlog-remap-*")
	if err != nil {
		return p, fmt.Errorf("make a folder for large payloads: %w", err)
	}
	defer func() { _ = os.RemoveAll(spool) }() // what stays is in the system's folder for such
	child := mapping.NewChild(mapping.Config{})
	defer func() { _ = child.Close() }() // it has answered
	err = postgres.Aside(ctx, pool, postgres.Audit, a.settings.Tenant, func(tx pgx.Tx) error {
		m := ingest.Remap{Archive: archive.New(store, archive.NewPostgresKeys(tx, ring)), Mapper: child, Spool: spool, Read: func(n int) {
			fmt.Fprintf(a.stderr, "remap %s under mapping version %d: %d deliveries read in the shadow\n", sel.Feed, sel.Mapping, n)
		}}
		var (
			fault *offer.Fault
			err   error
		)
		if p, fault, err = m.Preview(ctx, tx, a.settings.Tenant, *sel); fault != nil {
			return &exitError{exitConflict, fault.Reason, "offerlog feed list shows the version in force", fault}
		}
		return err
	})
	return p, err
}

// showPreview prints a preview: for people its numbers, and the first changes.
func (a *app) showPreview(p *ingest.Preview) error {
	if a.json {
		return show(a, "", []*ingest.Preview{p}, nil)
	}
	tally := func(of map[string]int) string {
		var list []string
		for _, what := range slices.Sorted(maps.Keys(of)) {
			list = append(list, fmt.Sprintf("%d %s", of[what], what))
		}
		return strings.Join(list, ", ")
	}
	for _, l := range []struct{ name, value string }{
		{"deliveries", fmt.Sprintf("%d to read, %d can be read", p.Deliveries, p.Reread)},
		{"quarantined", tally(p.Quarantined)},
		{"rows", fmt.Sprintf("%d, of which %d rejected", p.Rows, sum(p.Rejected))},
		{"rejected", tally(p.Rejected)},
		{"observations", fmt.Sprintf("%d more, digest %s", p.Added, p.Digest)},
		{"offers", fmt.Sprintf("%d, of which %d are for sale", p.Offers, p.ForSale)},
		{"changes", fmt.Sprintf("%d appear, %d vanish, %d change, %d of these in price", p.Appears, p.Vanishes, p.Changes, p.Repriced)},
		{"fields", tally(p.Fields)},
	} {
		if l.value == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "%-13s %s\n", l.name, l.value); err != nil {
			return err
		}
	}
	if len(p.Examples) == 0 {
		return nil
	}
	return show(a, "ACCOUNT\tRECORD\tWHAT\tFROM\tTO", p.Examples, func(c shadow.Change) string {
		return cells(c.Account, c.Record, c.What, said(c.Was, c.Fields), said(c.Will, c.Fields))
	})
}

// said is what a state says in some fields.
func said(s *shadow.State, fields []string) string {
	if s == nil {
		return ""
	}
	var list []string
	for _, f := range fields {
		list = append(list, f+" "+s.Says[f])
	}
	return strings.Join(list, ", ")
}

func sum(of map[string]int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}
