package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
)

// A past says of which moment a read of the past is.
type past struct{ asOf, knownAt string }

func (p *past) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.asOf, "as-of", "", "by claims that were true by then, such as 2026-03-01T08:00:00Z")
	cmd.Flags().StringVar(&p.knownAt, "known-at", "", "by what was recorded by then, such as 2026-03-01T08:00:00Z")
}

func (p *past) asked() bool { return p.asOf != "" || p.knownAt != "" }

// A moment is where in the past an answer stands.
type moment struct {
	AsOf    string `json:"as_of,omitempty"`
	KnownAt string `json:"known_at_effective,omitempty"` // when the tick was recorded that the answer stands on; "": nothing was known
	Closed  bool   `json:"closed"`                       // the answer never changes any more
}

// find returns the tick that the read stands on, and the time that bounds claims. Before the first tick nothing was known:
// then the tick is the zero one, which no claim is within.
func (p *past) find(ctx context.Context, tx pgx.Tx) (at tick.Tick, asOf *offer.Time, m moment, err error) {
	known := time.Now()
	for _, t := range []struct {
		flag, text string
		set        func(offer.Time)
	}{
		{"--as-of", p.asOf, func(t offer.Time) { asOf, m.AsOf = &t, t.Text }},
		{"--known-at", p.knownAt, func(t offer.Time) { known = t.Time() }},
	} {
		if t.text == "" {
			continue
		}
		read, err := offer.ParseTime(t.text)
		if err != nil {
			return at, nil, m, usage("write it as 2026-03-01T08:00:00Z", "%s: %w", t.flag, err)
		}
		t.set(read)
	}
	at, err = tick.At(ctx, tx, known)
	if errors.Is(err, tick.ErrNone) {
		return at, asOf, m, nil
	}
	m.KnownAt, m.Closed = offer.TimeOf(at.At).Text, at.Closed
	return at, asOf, m, err
}

// String says it for people.
func (m moment) String() string {
	switch {
	case m.KnownAt == "":
		return "nothing was known"
	case m.Closed:
		return "known at " + m.KnownAt
	}
	return "known at " + m.KnownAt + ", and nothing has closed that moment yet"
}

// A pastOffer is an offer as it was known.
type pastOffer struct {
	view.Document
	moment
}

// showKnown prints offers as they were known.
func (a *app) showKnown(ctx context.Context, f view.Filter, p past) error {
	var (
		list []pastOffer
		m    moment
	)
	err := a.asTenant(ctx, postgres.Read, func(tx pgx.Tx) error {
		at, asOf, found, err := p.find(ctx, tx)
		if err != nil {
			return err
		}
		m = found
		offers, err := view.Known(ctx, tx, f, at, asOf)
		list = nil
		for _, o := range offers {
			list = append(list, pastOffer{o, m})
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "note: %s\n", m)
	return show(a, offerHead, list, func(o pastOffer) string { return offerCells(o.Document) })
}

func (a *app) shownCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "shown ACCOUNT RECORD",
		Short: "Print every value that an offer was ever published with, the oldest first",
		Long: "What was shown is what the view had when it was asked: it may have been behind, and it stays what it was when claims are\n" +
			"undone later. What was known at some time is another question: offerlog offers --known-at.",
		Example: "  offerlog offers shown ACC-1 AX-440-R2\n  offerlog offers shown ACC-1 AX-440-R2 --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var list []view.Shown
			err := a.asTenant(cmd.Context(), postgres.Read, func(tx pgx.Tx) (err error) {
				list, err = view.EverShown(cmd.Context(), tx, a.offerID(args[0], args[1]))
				return err
			})
			if err != nil {
				return err
			}
			return show(a, "REV\tFROM\tUNTIL\tSTATE\tQUANTITY\tPRICE\tOBSERVED", list, func(s view.Shown) string {
				state := s.State
				if state == "" && s.Deleted {
					state = "deleted"
				}
				return cells(decimal(s.Revision), second(s.ShownFrom), second(s.ShownUntil), state, s.Quantity.String(), money(s.Content), second(s.ObservedAt))
			})
		},
	}
}

// offerID is the id of an offer of the settings' tenant.
func (a *app) offerID(account, record string) offer.OfferID {
	return offer.Key{Tenant: a.settings.Tenant, Account: account, Record: record}.ID()
}
