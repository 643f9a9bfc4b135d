package ingest

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/run"
)

// A FeedDecision is the data of a command that suspends or resumes a feed.
type FeedDecision struct {
	Feed string `json:"feed"`
}

// Claims is the data of a command that takes claims out of the count, or back into it: what a delivery claims, one observation,
// what was accepted in a window, or what was read under a mapping version.
type Claims struct {
	Delivery    *uuid.UUID      `json:"delivery,omitempty"`
	Observation *Observation    `json:"observation,omitempty"`
	Window      *Window         `json:"window,omitempty"`
	Mapping     *MappingVersion `json:"mapping,omitempty"`
}

// An Observation names one by its offer and its id.
type Observation struct {
	Account string    `json:"supplier_account"`
	Record  string    `json:"source_record"`
	ID      uuid.UUID `json:"observation_id"`
}

// A standingDecision is an operator's decision on how a subject's claims count from now on.
type standingDecision struct {
	decision.Decision
	check func(ctx context.Context, tx pgx.Tx, st *settlement) (*offer.Fault, error) // that the subject is there
}

// newStandingDecision completes a decision with who commands it and why.
func newStandingDecision(ev *delivery.Event, d decision.Decision, check func(context.Context, pgx.Tx, *settlement) (*offer.Fault, error)) (command, *offer.Fault) {
	var fault *offer.Fault
	if d.Actor, d.Reason, fault = why(ev); fault != nil {
		return nil, fault
	}
	return &standingDecision{d, check}, nil
}

func readFeedDecision(verdict decision.Verdict, standing decision.Standing) func(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return func(tenant string, ev *delivery.Event) (command, *offer.Fault) {
		data, fault := readData[FeedDecision](ev)
		if fault != nil {
			return nil, fault
		}
		d := decision.Decision{Subject: decision.OfFeed(tenant, data.Feed), Feed: data.Feed, Verdict: verdict, Standing: standing}
		return newStandingDecision(ev, d, nil)
	}
}

func readUndo(verdict decision.Verdict, standing decision.Standing) func(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return func(tenant string, ev *delivery.Event) (command, *offer.Fault) {
		data, fault := readData[Claims](ev)
		if fault != nil {
			return nil, fault
		}
		if o := data.Observation; o != nil {
			id := (offer.Key{Tenant: tenant, Account: o.Account, Record: o.Record}).ID()
			d := decision.Decision{Subject: decision.Subject{Tenant: tenant, Kind: decision.Observation, ID: o.ID}, Offer: id, Verdict: verdict, Standing: standing}
			return newStandingDecision(ev, d, func(ctx context.Context, tx pgx.Tx, _ *settlement) (*offer.Fault, error) {
				known, err := history.Has(ctx, tx, tenant, history.Statement{Offer: id, ID: offer.ObservationID(o.ID)})
				if err != nil || known {
					return nil, err
				}
				return refusal("observation", "record %q of account %q has no observation %s: offerlog observations lists those that there are", o.Record, o.Account, o.ID), nil
			})
		}
		if data.Window != nil {
			return newWindowDecision(tenant, ev, *data.Window, verdict == decision.Retracted)
		}
		if data.Mapping != nil {
			return readMappingDecision(tenant, ev, *data.Mapping, verdict, standing)
		}
		id := offer.DeliveryID(*data.Delivery)
		d := decision.Decision{Subject: decision.Subject{Tenant: tenant, Kind: decision.Delivery, ID: uuid.UUID(id)}, Verdict: verdict, Standing: standing}
		return newStandingDecision(ev, d, func(ctx context.Context, tx pgx.Tx, st *settlement) (*offer.Fault, error) {
			found, err := receipt.Find(ctx, tx, []receipt.Key{{Tenant: tenant, Delivery: id}})
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return refusal("delivery", "no delivery %s was accepted: offerlog deliveries lists those that were", id), nil
			}
			pages, err := run.OfPages(ctx, tx, tenant, []offer.DeliveryID{id})
			if err != nil {
				return nil, err
			}
			if r, ok := pages[id]; ok && st.catalogue(&r, id) {
				return refusal("delivery", "is a page of run %q, and a catalogue counts as a whole: offerlog undo run takes it out", r.Name), nil
			}
			return nil, nil
		})
	}
}

// apply refuses what would decide nothing.
func (c *standingDecision) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	d := c.Decision
	if d.Kind == decision.Feed {
		f := st.registry.Feed(d.Tenant, d.Feed)
		if f == nil {
			return refusal("feed", "%q is none of the tenant's: offerlog feed list names them", d.Feed), nil
		}
		d.Account = f.Account
	} else if fault, err := c.check(ctx, tx, st); err != nil || fault != nil {
		return fault, err
	}
	last, err := decision.Last(ctx, tx, d.Tenant, []uuid.UUID{d.ID})
	if err != nil {
		return nil, err
	}
	before, found := st.standingOf(d.Subject, last)
	if found && before == d.Standing || !found && d.Standing == decision.Counting {
		return refusal("", "nothing would change: the %s %s already", d.Kind, map[bool]string{true: "counts", false: "is out of the count"}[d.Standing == decision.Counting]), nil
	}
	d.Command = &e.key.Delivery
	st.decide(e, d)
	return nil, nil
}

// standingOf is how the claims of a subject count by the decisions that history holds (last) and those of this batch; found is
// false where nothing was decided.
func (st *settlement) standingOf(s decision.Subject, last map[uuid.UUID]decision.Standing) (standing decision.Standing, found bool) {
	if here := st.decidedHere(s); here != nil {
		return here.Standing, true
	}
	standing, found = last[s.ID]
	return standing, found
}

// catalogue reports whether a page belongs to a run that counts as a whole.
func (st *settlement) catalogue(r *run.Run, page offer.DeliveryID) bool {
	f := st.registry.Feed(r.Tenant, r.Feed)
	return f != nil && f.Mode == feed.ModeSnapshot || r.ID == uuid.UUID(page)
}
