package ingest

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/pkg/tick"
)

// A Window is what was accepted behind one time and up to another: each stands for the newest tick at or before it.
type Window struct {
	From offer.Time `json:"from"`
	To   offer.Time `json:"to"`
}

// maxWindow is how many deliveries one command decides about: each is a decision in every partition of observations.
const maxWindow = 10_000

// A windowDecision takes what a window holds out of the count, or back into it. It is a decision on each of the deliveries, and
// on the run where that is a catalogue, made when the command is: what comes later is in no window.
type windowDecision struct {
	tenant        string
	window        Window
	undo          bool
	actor, reason string

	runs []*decideRun // of catalogues, once it is applied: they are decided under their locks
}

func newWindowDecision(tenant string, ev *delivery.Event, w Window, undo bool) (command, *offer.Fault) {
	actor, reason, fault := why(ev)
	if fault != nil {
		return nil, fault
	}
	return &windowDecision{tenant: tenant, window: w, undo: undo, actor: actor, reason: reason}, nil
}

// apply refuses a window that is not over, that is older than receipts are kept, and one of which nothing would change.
func (c *windowDecision) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	c.runs = nil
	if now := st.hold(e).RecordedAt; c.window.To.Time().After(now) {
		return refusal("/window/to", "%s has not come: it is %s", c.window.To, offer.TimeOf(now)), nil
	}
	from, err := tick.At(ctx, tx, c.window.From.Time())
	if err != nil && !errors.Is(err, tick.ErrNone) {
		return nil, err
	}
	to, err := tick.At(ctx, tx, c.window.To.Time())
	if err != nil && !errors.Is(err, tick.ErrNone) {
		return nil, err
	}
	deliveries, err := history.Between(ctx, tx, c.tenant, from, to, maxWindow+1)
	if err != nil {
		return nil, err
	}
	if len(deliveries) > maxWindow {
		return refusal("/window", "holds more than %d deliveries: decide about parts of it, one after the other", maxWindow), nil
	}
	keys := make([]receipt.Key, len(deliveries))
	for i, d := range deliveries {
		keys[i] = receipt.Key{Tenant: c.tenant, Delivery: d}
	}
	kept, err := receipt.Find(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	if n := len(keys) - len(kept); n > 0 {
		return refusal("/window", "holds %d deliveries that are older than their feeds' policy.dedupe_horizon: begin it later", n), nil
	}
	decided, err := c.decideDeliveries(ctx, tx, st, e, deliveries)
	if err == nil && decided == 0 {
		return refusal("/window", "nothing would change: all that was accepted from %s to %s %s already", c.window.From, c.window.To,
			map[bool]string{true: "is out of the count", false: "counts"}[c.undo]), nil
	}
	return nil, err
}

// decideDeliveries decides about deliveries and the catalogues that they are pages of, and returns how many of both: those that
// do not stand so already.
func (c *windowDecision) decideDeliveries(ctx context.Context, tx pgx.Tx, st *settlement, e *event, deliveries []offer.DeliveryID) (n int, err error) {
	pages, err := run.OfPages(ctx, tx, c.tenant, deliveries)
	if err != nil {
		return 0, err
	}
	var (
		single []uuid.UUID
		whole  []decision.Subject
	)
	for _, d := range deliveries {
		if r, ok := pages[d]; ok && st.catalogue(&r, d) {
			whole = append(whole, r.Subject())
		} else {
			single = append(single, uuid.UUID(d))
		}
	}
	last, err := decision.Last(ctx, tx, c.tenant, single)
	if err != nil {
		return 0, err
	}
	verdict, standing := decision.Restored, decision.Counting
	if c.undo {
		verdict, standing = decision.Retracted, decision.NotCounting
	}
	for _, id := range single {
		of := decision.Subject{Tenant: c.tenant, Kind: decision.Delivery, ID: id}
		before, found := st.standingOf(of, last)
		if found && before == standing || !found && !c.undo {
			continue
		}
		st.decide(e, decision.Decision{Subject: of, Verdict: verdict, Standing: standing, Reason: c.reason, Actor: c.actor, Command: &e.key.Delivery})
		n++
	}
	standings, err := run.Standings(ctx, tx, decision.Sort(whole))
	if err != nil {
		return 0, err
	}
	verdict = decision.Released
	if c.undo {
		verdict = decision.Rejected
	}
	for i := range standings {
		s := &standings[i]
		if rejected := s.Verdict == decision.Rejected; rejected == c.undo {
			continue
		}
		c.runs = append(c.runs, &decideRun{Feed: s.Feed, Run: s.Name, verdict: verdict, subject: s.Subject(), reason: c.reason, actor: c.actor})
		n++
	}
	return n, nil
}
