package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
)

// A replayChoice is what the command line says of which deliveries are meant.
type replayChoice struct {
	sel                  replay.Selection
	from, to             string
	partition            int32
	fromOffset, toOffset int64
}

func (a *app) replayCommand() *cobra.Command {
	var (
		c       replayChoice
		d       decision
		timeout time.Duration
		rate    int
		dryRun  bool
	)
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Read archived deliveries again",
		Long: "Sends the accepted deliveries that the flags describe, all of them together, through ingest again, from the archive: each has an\n" +
			"outcome, a repeat changes nothing, and what has lost its receipt is taken anew. Live work goes on beside it.\n\n" +
			"With --topic it says what the topic no longer holds, which comes from the archive as far as it is there, and brings in what\n" +
			"the topic holds and was never stored: what an operator has let go, and with --from-offset what stands before the place where\n" +
			"reading began.\n\n" +
			"Prints a plan with --dry-run. Else it starts and shows how far it is; interrupted, the replay goes on without it.",
		Example: "  offerlog replay --feed acme-eu --from 2026-03-01T00:00:00Z --to 2026-03-02T00:00:00Z --dry-run\n" +
			"  offerlog replay --run EXP-8821 --reason \"after the restore\" --rate 200\n  offerlog replay --topic deliveries --partition 0 --from-offset 100 --to-offset 200 --reason \"the topic is gone\"",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.read(cmd); err != nil {
				return err
			}
			if rate < 1 {
				return usage("give deliveries a second, from 1", "--rate %d", rate)
			}
			if dryRun {
				return a.planReplay(cmd.Context(), c.sel)
			}
			if err := d.needReason(); err != nil {
				return err
			}
			return a.startReplay(cmd.Context(), ingest.ReplayStart{Selection: c.sel, Rate: rate}, d, timeout)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.sel.Feed, "feed", "", "deliveries of this feed")
	flags.StringVar(&c.sel.Run, "run", "", "deliveries of this run")
	flags.StringVar(&c.sel.Record, "record", "", "deliveries that claim something of this record")
	flags.StringVar(&c.sel.Artifact, "artifact", "", "deliveries whose payloads this object of the archive holds")
	flags.StringVar(&c.from, "from", "", "deliveries recorded at this time or later (RFC 3339)")
	flags.StringVar(&c.to, "to", "", "deliveries recorded before this time")
	flags.StringVar(&c.sel.Topic, "topic", "", "deliveries that came from this topic")
	flags.Int32Var(&c.partition, "partition", 0, "deliveries that came from this partition of the topic")
	flags.Int64Var(&c.fromOffset, "from-offset", 0, "deliveries at this offset or later")
	flags.Int64Var(&c.toOffset, "to-offset", 0, "deliveries before this offset")
	flags.IntVar(&rate, "rate", 500, "deliveries a second at most")
	flags.BoolVar(&dryRun, "dry-run", false, "only print what comes of it")
	d.flags(cmd, &timeout)
	cmd.AddCommand(a.replayListCommand(), a.replayShowCommand(),
		a.replaySetCommand("pause", streams.ReplayPauseType, "Let a replay wait"),
		a.replaySetCommand("resume", streams.ReplayResumeType, "Let a replay that waits go on"),
		a.replaySetCommand("cancel", streams.ReplayCancelType, "End a replay: what it has sent stands"))
	return cmd
}

// read makes a selection of the flags.
func (c *replayChoice) read(cmd *cobra.Command) error {
	for _, t := range []struct {
		name, text string
		to         **time.Time
	}{{"from", c.from, &c.sel.From}, {"to", c.to, &c.sel.To}} {
		if t.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, t.text)
		if err != nil {
			return usage("write it as 2026-03-01T08:00:00Z", "--%s %q is no time", t.name, t.text)
		}
		*t.to = &at
	}
	given := cmd.Flags().Changed
	if given("partition") {
		c.sel.Partition = &c.partition
	}
	if given("from-offset") {
		c.sel.FromOffset = &c.fromOffset
	}
	if given("to-offset") {
		c.sel.ToOffset = &c.toOffset
	}
	if c.sel.Topic == "" && given("partition") || c.sel.Partition == nil && (given("from-offset") || given("to-offset")) {
		return usage("name --topic and --partition beside them", "a partition is of a topic, and an offset of a partition")
	}
	return nil
}

// planReplay prints what a replay would come to now.
func (a *app) planReplay(ctx context.Context, sel replay.Selection) error {
	u, err := a.lookAtTopic(ctx, sel)
	if err != nil {
		return err
	}
	fresh, err := u.deliveries(ctx)
	if err != nil {
		return err
	}
	var plan replay.Plan
	err = a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) (err error) {
		if plan, err = expect(ctx, tx, a.settings.Tenant, sel); err == nil {
			err = planUnstored(ctx, tx, fresh, &plan)
		}
		return err
	})
	if err != nil {
		return err
	}
	return show(a, "DELIVERIES\tACCEPTED\tDUPLICATE\tQUARANTINED", []replay.Plan{plan}, func(p replay.Plan) string {
		return cells(decimal(p.Deliveries), decimal(p.Accepted), decimal(p.Duplicate), decimal(p.Quarantined))
	})
}

// A shownReplay is a replay as it is printed.
type shownReplay struct {
	ID         string           `json:"id"`
	Selection  replay.Selection `json:"selection"`
	State      string           `json:"state"` // running | paused | cancelled | sent | done
	Rate       int              `json:"rate"`
	Sent       int64            `json:"sent"`
	Answered   int64            `json:"answered"`
	Outcomes   []replay.Tally   `json:"outcomes,omitempty"`
	Unstored   []replay.Tally   `json:"never_stored,omitempty"` // what became of deliveries that the topic held and that were never stored
	Actor      string           `json:"actor"`
	Reason     string           `json:"reason"`
	RecordedAt string           `json:"recorded_at"`
}

func newShownReplay(r *replay.Run) shownReplay {
	state := r.State
	if r.Done() {
		state = "done"
	}
	return shownReplay{ID: r.ID.String(), Selection: r.Selection, State: state, Rate: r.Rate, Sent: r.Sent, Answered: r.Answered,
		Actor: r.Actor, Reason: r.Reason, RecordedAt: offer.TimeOf(r.RecordedAt).Text}
}

func (a *app) showReplays(list []shownReplay) error {
	return show(a, "REPLAY\tSTATE\tSENT\tANSWERED\tOUTCOMES\tRECORDED\tREASON", list, func(r shownReplay) string {
		var came []string
		for _, t := range slices.Concat(r.Outcomes, r.Unstored) {
			what := string(t.Outcome)
			if t.Reason != "" {
				what = t.Reason
			}
			if t.Detail != "" {
				what = t.Detail
			}
			came = append(came, decimal(t.Count)+" "+what)
		}
		return cells(r.ID, r.State, decimal(r.Sent), decimal(r.Answered), strings.Join(came, ", "), second(r.RecordedAt), r.Reason)
	})
}

func (a *app) replayListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "Print the replays and how far each is, the newest first",
		Example: "  offerlog replay list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []shownReplay
			err := a.asTenant(cmd.Context(), postgres.Audit, func(tx pgx.Tx) error {
				found, err := replay.List(cmd.Context(), tx, nil)
				for i := range found {
					list = append(list, newShownReplay(&found[i]))
				}
				return err
			})
			if err != nil {
				return err
			}
			return a.showReplays(list)
		},
	}
}

func (a *app) replayShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Print a replay and what became of its deliveries",
		Example: "  offerlog replay show 6f9619ff-8b86-8d01-b42d-00c04fc964ff",
		Args:    oneArg("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := replayID(args[0])
			if err != nil {
				return err
			}
			return a.showReplay(cmd.Context(), id, nil)
		},
	}
}

func (a *app) showReplay(ctx context.Context, id uuid.UUID, unstored []replay.Tally) error {
	var shown shownReplay
	err := a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) error {
		r, err := findReplay(ctx, tx, id)
		if err != nil {
			return err
		}
		shown = newShownReplay(&r)
		shown.Unstored = unstored
		shown.Outcomes, err = replay.Outcomes(ctx, tx, id)
		return err
	})
	if err != nil {
		return err
	}
	return a.showReplays([]shownReplay{shown})
}

func replayID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, usage("run offerlog replay list for the ids", "%q is no id of a replay", text)
	}
	return id, nil
}

func findReplay(ctx context.Context, tx pgx.Tx, id uuid.UUID) (replay.Run, error) {
	found, err := replay.List(ctx, tx, &id)
	if err == nil && len(found) == 0 {
		err = &exitError{exitNotFound, "no_replay", "run offerlog replay list for the tenant's replays", fmt.Errorf("no replay %s", id)}
	}
	if err != nil {
		return replay.Run{}, err
	}
	return found[0], nil
}

// replaySetCommand is a command that publishes a decision on a replay.
func (a *app) replaySetCommand(verb, kind, short string) *cobra.Command {
	var (
		d       decision
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  offerlog replay " + verb + " 6f9619ff-8b86-8d01-b42d-00c04fc964ff --reason \"live work comes first\"",
		Args:    oneArg("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := replayID(args[0])
			if err != nil {
				return err
			}
			if err := d.needReason(); err != nil {
				return err
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			if _, err := a.command(ctx, kind, ingest.ReplayOf{Replay: id}, d); err != nil {
				return fmt.Errorf("%s replay %s: %w", verb, id, err)
			}
			return a.showReplay(ctx, id, nil)
		},
	}
	d.flags(cmd, &timeout)
	return cmd
}

// replayLook is how often a replay that is followed is looked at.
const replayLook = 500 * time.Millisecond

// followReplay tells on standard error how far a replay is, until it does not run any more, brings in what was never stored, and
// prints what became of it all.
func (a *app) followReplay(ctx context.Context, id uuid.UUID, u *unstored) error {
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return err
	}
	defer pool.Close()
	var (
		total = int64(-1)
		began = time.Now()
		tick  = time.NewTicker(replayLook)
	)
	defer tick.Stop()
	for {
		var r replay.Run
		err := postgres.AsTenant(ctx, pool, postgres.Audit, a.settings.Tenant, func(tx pgx.Tx) (err error) {
			if r, err = findReplay(ctx, tx, id); err == nil && total < 0 {
				var rest replay.Plan
				rest, err = r.Expect(ctx, tx)
				total = r.Sent + rest.Deliveries
			}
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "replay %s: %d of %d%s\n", id, r.Answered, total, pace(r.Answered, total, time.Since(began)))
		if r.State == replay.Paused || r.State == replay.Cancelled {
			return a.showReplay(ctx, id, nil)
		}
		if r.Done() {
			came, err := a.bringIn(ctx, u, r.Rate)
			if err != nil {
				return fmt.Errorf("bring in what was never stored: %w", err)
			}
			return a.showReplay(ctx, id, came)
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(a.stderr, "note: the replay goes on; offerlog replay show %s tells how far it is, offerlog replay pause %[1]s lets it wait\n", id)
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// pace is the rate so far and how long the rest takes at it.
func pace(done, total int64, took time.Duration) string {
	if done == 0 || done >= total || took <= 0 {
		return ""
	}
	left := time.Duration(int64(took) / done * (total - done)).Round(time.Second)
	return fmt.Sprintf(", %d a second, %s left", int64(time.Duration(done)*time.Second/took), left)
}
