package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
)

var outcomes = []string{string(offer.Accepted), string(offer.Duplicate), string(offer.Quarantined), string(offer.Skipped), string(offer.Reread)}

func (a *app) deliveriesCommand() *cobra.Command {
	var (
		f       receipt.Filter
		outcome string
	)
	cmd := &cobra.Command{
		Use:   "deliveries [KEY]",
		Short: "Print what became of each event, the newest first; with a key, all attempts of that delivery",
		Long: "Prints one line for each event of the input topics. KEY is a replay key as printed here (tenant/connector/account/\n" +
			"source/id, each percent-encoded) or a delivery's id; its attempts come the oldest first: refusals, the accepted one, repeats.\n" +
			"What no feed expects is kept under the tenant " + offer.SystemTenant + ". A list goes back " + decimal(receipt.Reach) + " offsets in each partition;\n" +
			"a key finds its delivery however old it is.",
		Example: "  offerlog deliveries --outcome quarantined --limit 20\n  offerlog deliveries demo/acme-eu/ACC-1/%2Facme-eu%2Fexport/EXP-8821%2F2\n" +
			"  offerlog deliveries --tenant _system --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("run "+cmd.CommandPath()+" --help", "%s takes one key, got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			if outcome != "" && !slices.Contains(outcomes, outcome) {
				return usage(didYouMean(outcome, outcomes, "choose from "+strings.Join(outcomes, ", ")), "unknown outcome %q", outcome)
			}
			f.Outcome = offer.Outcome(outcome)
			if len(args) == 1 {
				return a.showDelivery(cmd, args[0])
			}
			var (
				list  []receipt.Document
				lanes []lane.Lane
			)
			err := a.asTenant(cmd.Context(), postgres.Audit, func(tx pgx.Tx) (err error) {
				if list, err = receipt.List(cmd.Context(), tx, f); err == nil {
					lanes, err = lane.List(cmd.Context(), tx, lane.Input, "")
				}
				return err
			})
			if err != nil {
				return err
			}
			a.atMost(len(list), f.Limit)
			if len(list) < f.Limit && slices.ContainsFunc(lanes, beyondReach) {
				fmt.Fprintf(a.stderr, "note: only the last %d offsets of each partition were looked at; an older delivery is found by its key\n", receipt.Reach)
			}
			return a.showAttempts(list)
		},
	}
	cmd.Flags().StringVar(&f.Feed, "feed", "", "only of this feed")
	cmd.Flags().StringVar(&outcome, "outcome", "", "only with this outcome: "+strings.Join(outcomes, ", "))
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "at most so many")
	return cmd
}

// beyondReach tells whether a lane is longer than a list of deliveries goes back.
func beyondReach(l lane.Lane) bool { return l.Next-l.Start > receipt.Reach }

// showDelivery prints all attempts of a delivery, for people with what each of them left behind.
func (a *app) showDelivery(cmd *cobra.Command, key string) error {
	id, err := parseDelivery(key)
	if err != nil {
		return err
	}
	var attempts []receipt.Document
	err = a.asTenant(cmd.Context(), postgres.Audit, func(tx pgx.Tx) (err error) {
		attempts, err = receipt.Of(cmd.Context(), tx, id)
		return err
	})
	if err != nil {
		return err
	}
	if len(attempts) == 0 {
		return &exitError{exitNotFound, "no_delivery", "run offerlog deliveries for those that there are",
			fmt.Errorf("tenant %s has no delivery %s", a.settings.Tenant, key)}
	}
	if a.json {
		return a.showAttempts(attempts)
	}
	last := attempts[len(attempts)-1]
	weak := ""
	if last.Identity == offer.Strength(false) {
		weak = "weak identity, "
	}
	fmt.Fprintf(a.stdout, "%s\ndelivery %s, feed %s, %sattempts %d\n", last.ReplayKey, last.Delivery, cmp.Or(last.Feed, "-"), weak, len(attempts))
	for i := range attempts {
		if err := a.showAttempt(&attempts[i]); err != nil {
			return err
		}
	}
	return nil
}

// showAttempt prints one attempt as lines of a name and a value.
func (a *app) showAttempt(d *receipt.Document) error {
	lines := []line{{"outcome", string(d.Outcome)}, {"recorded", d.RecordedAt}, {"fingerprint", d.Canonicalization + ":" + d.Fingerprint}}
	if d.Message != "" {
		lines = append(lines, line{"because", d.Message})
	}
	if d.First != nil {
		lines = append(lines, line{"first", d.First.Where()})
	}
	if d.Outcome == offer.Accepted {
		lines = append(lines, line{"rows", fmt.Sprintf("%d: %s", d.Rows, results(d.Results))})
	}
	for _, r := range d.Rejected {
		lines = append(lines, line{"rejected", r.Error()})
	}
	for _, w := range d.Warnings {
		lines = append(lines, line{"warning", strings.TrimSpace(fmt.Sprintf("row %d: %s %s", w.Row, w.Warning, w.Detail))})
	}
	if e := d.Artifact; e != nil {
		gone := ""
		if e.State != "stored" {
			gone = ", artifact_" + e.State + ": it cannot be read any more"
		}
		lines = append(lines, line{"artifact", fmt.Sprintf("%s, entry %d/%d, %d bytes, sha256 %s%s", e.Object, e.Offset, e.Item, e.Length, e.SHA256, gone)})
	}
	for _, id := range d.Observations {
		lines = append(lines, line{"observation", id})
	}
	fmt.Fprintln(a.stdout)
	return a.showLines("EVENT\t"+d.Where(), lines)
}

// showAttempts prints a line for each attempt.
func (a *app) showAttempts(list []receipt.Document) error {
	return show(a, "EVENT\tFEED\tID\tOUTCOME\tREASON\tROWS\tOBSERVATIONS\tATTEMPTS\tRECORDED\tREPLAY KEY", list, func(d receipt.Document) string {
		return cells(d.Where(), d.Feed, d.EventID, string(d.Outcome), d.Reason, strconv.Itoa(d.Rows), strconv.Itoa(len(d.Observations)),
			strconv.Itoa(d.Attempts), second(d.RecordedAt), d.ReplayKey)
	})
}

// results names the counts that are not zero.
func results(r offer.Results) string {
	var parts []string
	for _, c := range []struct {
		name string
		n    int
	}{{"saved", r.Saved}, {"duplicate", r.Duplicate}, {"old", r.Old}, {"ambiguous_order", r.AmbiguousOrder}, {"rejected", r.Rejected}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// parseDelivery reads a replay key, as offer.ReplayKey writes it, or a delivery's id.
func parseDelivery(key string) (offer.DeliveryID, error) {
	if id, err := uuid.Parse(key); err == nil {
		return offer.DeliveryID(id), nil
	}
	const hint = "write tenant/connector/account/source/id, each percent-encoded, or the delivery's id, as offerlog deliveries prints them"
	k, err := offer.ParseReplayKey(key)
	if err != nil {
		return offer.DeliveryID{}, usage(hint, "%w", err)
	}
	return k.ID(), nil
}
