package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	pkgdecision "github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
)

func (a *app) explainCommand() *cobra.Command {
	var (
		p   past
		raw bool
	)
	cmd := &cobra.Command{
		Use:   "explain ACCOUNT RECORD",
		Short: "Say why an offer shows what it shows: the winner, and the rule that keeps each other claim from being shown",
		Long: "Prints every observation of the offer, the highest rank first: how often it was restated, which delivery stated it, where its\n" +
			"evidence lies, and why it is shown or not. One that does not count has the word of what keeps it out: held, rejected, braked,\n" +
			"superseded, retracted, suspended, older_reading, snapshot_passed, snapshot_has, future, expired, unresolved.\n\n" +
			"With --raw it writes exactly the bytes of the row that is shown, as the supplier sent them, and says on standard error where they\n" +
			"stand. They are read from the archive again.",
		Example: "  offerlog explain ACC-1 AX-440-R2\n  offerlog explain ACC-1 AX-440-R2 --known-at 2026-03-01T08:00:00Z --json\n" +
			"  offerlog explain ACC-1 AX-440-R2 --raw",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := a.explain(cmd.Context(), args[0], args[1], p)
			if err != nil {
				return err
			}
			var shown *candidate
			if raw {
				if shown, err = a.raw(cmd.Context(), &x); err != nil {
					return err
				}
			}
			if a.json {
				return show(a, "", []explanation{x}, nil)
			}
			if p.asked() {
				fmt.Fprintf(a.stderr, "note: %s\n", x.moment)
			}
			if raw {
				fmt.Fprintf(a.stderr, "note: row %d of delivery %s, bytes %d to %d of its %s\n", shown.Row, shown.Receipt.ReplayKey, shown.Raw.Begin, shown.Raw.End, shown.Raw.Of)
				_, err = io.WriteString(a.stdout, shown.Raw.Text)
				return err
			}
			return show(a, "RULE\tCOUNTS\tVERSION\tOBSERVED\tQUANTITY\tPRICE\tSIGHTINGS\tMAPPING\tDELIVERY\tROW\tEVIDENCE", x.Candidates, candidateCells)
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&raw, "raw", false, "write the row that is shown, as the supplier sent it")
	return cmd
}

// An explanation is why an offer shows what it shows.
type explanation struct {
	Tenant  string `json:"tenant"`
	Account string `json:"supplier_account"`
	Record  string `json:"source_record"`
	moment
	Candidates []candidate `json:"candidates"` // the highest rank first
}

// A candidate is an observation that the offer could show.
type candidate struct {
	Rule      string `json:"rule"`   // shown, or why not
	Counts    string `json:"counts"` // no | part | yes
	Sightings int    `json:"sightings"`
	// ItemLinked is what a link says that the item is which the observation claims.
	ItemLinked *offer.Item `json:"item_linked,omitempty"`
	history.Document
	// Receipt is what was decided for the delivery that stated it; absent: its receipt has expired, or no delivery states it.
	Receipt *receipt.Document `json:"receipt,omitempty"`
	// Raw is the row that it was read from, of the one that is shown and where it was asked for.
	Raw *rawRow `json:"raw,omitempty"`
}

var countsText = map[pkgdecision.Standing]string{pkgdecision.NotCounting: "no", pkgdecision.Partial: "part", pkgdecision.Counting: "yes"}

func (a *app) explain(ctx context.Context, account, record string, p past) (x explanation, err error) {
	err = a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) error {
		id := a.offerID(account, record) // the tenant may be that of the running dev
		x = explanation{Tenant: a.settings.Tenant, Account: account, Record: record, Candidates: []candidate{}}
		var (
			at   tick.Tick
			asOf *offer.Time
			err  error
		)
		if p.asked() {
			at, asOf, x.moment, err = p.find(ctx, tx)
		} else {
			at, err = view.Applied(ctx, tx, id)
		}
		if errors.Is(err, view.ErrNoOffer) {
			return &exitError{exitNotFound, "no_offer", "run offerlog offers --all for those that there are",
				fmt.Errorf("tenant %s has no offer %q in account %q", x.Tenant, record, account)}
		}
		if err != nil {
			return err
		}
		found, err := view.Explain(ctx, tx, id, at, asOf)
		if err != nil {
			return err
		}
		for _, c := range found {
			o := &c.Observation
			said := candidate{Rule: c.Rule, Counts: countsText[c.Standing], Sightings: c.Sightings, Document: o.Document()}
			if o.Implied() {
				said.Receipt, err = acceptance(ctx, tx, o.Delivery)
			} else {
				said.Receipt, err = receipt.Stating(ctx, tx, o.Delivery, o.Lane, o.Seq)
			}
			if err != nil {
				return err
			}
			if c.Item != (offer.Item{}) {
				said.ItemLinked = &c.Item
			}
			x.Candidates = append(x.Candidates, said)
		}
		return nil
	})
	return x, err
}

// acceptance is the attempt by which a delivery was accepted; nil: its receipt has expired.
func acceptance(ctx context.Context, tx pgx.Tx, id offer.DeliveryID) (*receipt.Document, error) {
	attempts, err := receipt.Of(ctx, tx, id)
	for i := range attempts {
		if attempts[i].Outcome == offer.Accepted {
			return &attempts[i], err
		}
	}
	return nil, err
}

func candidateCells(c candidate) string {
	delivery, evidence := c.Delivery, ""
	if c.Receipt != nil {
		delivery = c.Receipt.ReplayKey
		if e := c.Receipt.Artifact; e != nil {
			evidence = "artifact_" + e.State
		}
	}
	return cells(c.Rule, c.Counts, c.Version, second(c.ObservedAt), c.Quantity.String(), money(c.Content), decimal(int64(c.Sightings)),
		decimal(int64(c.MappingVersion)), delivery, decimal(int64(c.Row)), evidence)
}
