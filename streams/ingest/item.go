package ingest

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
)

// An ItemLink is the data of a command that says which item claims of an offer mean: those that say Was, now and later. What
// was claimed stays as it is; the offer shows Item. To take the link back, Item is left out.
type ItemLink struct {
	Account string     `json:"supplier_account"`
	Record  string     `json:"source_record"`
	Was     offer.Item `json:"item_was"`
	Item    offer.Item `json:"item,omitzero"`
}

func readItemLink(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readItemDecision(tenant, ev, decision.Linked, decision.Counting)
}

func readItemUnlink(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readItemDecision(tenant, ev, decision.Unlinked, decision.NotCounting)
}

func readItemDecision(tenant string, ev *delivery.Event, verdict decision.Verdict, standing decision.Standing) (command, *offer.Fault) {
	data, fault := readData[ItemLink](ev)
	if fault != nil {
		return nil, fault
	}
	of := offer.Key{Tenant: tenant, Account: data.Account, Record: data.Record}
	d := decision.Decision{Subject: decision.OfItem(of, data.Was), Offer: of.ID(), ItemWas: data.Was, Item: data.Item, Verdict: verdict, Standing: standing}
	c, fault := newStandingDecision(ev, d, nil)
	if fault != nil {
		return nil, fault
	}
	return &itemDecision{c.(*standingDecision).Decision, of}, nil
}

// An itemDecision links claims of an offer to another item, or takes that back.
type itemDecision struct {
	decision.Decision
	of offer.Key
}

// apply refuses what would decide nothing.
func (c *itemDecision) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	d := c.Decision
	last, err := decision.LastLink(ctx, tx, d.Subject)
	if err != nil {
		return nil, err
	}
	if here := st.decidedHere(d.Subject); here != nil {
		last = offer.Item{}
		if here.Standing == decision.Counting {
			last = here.Item
		}
	}
	switch {
	case d.Verdict == decision.Unlinked && last == (offer.Item{}):
		return refusal("", "nothing would change: record %q has no link of that item", c.of.Record), nil
	case d.Verdict == decision.Unlinked:
		d.Item = last
	case d.Item == last || d.Item == d.ItemWas:
		return refusal("item", "nothing would change: it is that item already"), nil
	default:
		known, err := history.SaysItem(ctx, tx, c.of, d.ItemWas)
		if err != nil {
			return nil, err
		}
		if !known {
			return refusal("item_was", "no claim about record %q of account %q says so: offerlog observations lists what they say", c.of.Record, c.of.Account), nil
		}
	}
	d.Command = &e.key.Delivery
	st.decide(e, d)
	return nil, nil
}
