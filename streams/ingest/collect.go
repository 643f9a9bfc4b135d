package ingest

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
)

// A Collect is the data of the command by which old deletions are shown no longer.
type Collect struct {
	Feed   string     `json:"feed"`
	Before offer.Time `json:"before"` // they were recorded before

	tenant string
}

func readCollect(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	c, fault := readData[Collect](ev)
	if fault != nil {
		return nil, fault
	}
	c.tenant = tenant
	return c, nil
}

// apply decides that deletions of the feed are collected up to a time, unless they are already. Whoever asks, the feed must not
// remember them any longer by the lane's clock: what comes again until then has to find them.
func (c *Collect) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	f := st.registry.Feed(c.tenant, c.Feed)
	if f == nil {
		return refusal("/feed", "the tenant has no feed %q", c.Feed), nil
	}
	if kept := st.hold(e).RecordedAt.Add(-time.Duration(f.Policy.TombstoneHorizon)); c.Before.Time().After(kept) {
		return refusal("/before", "deletions of feed %s are remembered for %s, so those from %s on", c.Feed, f.Policy.TombstoneHorizon, offer.TimeOf(kept)), nil
	}
	of := decision.OfHorizon(c.tenant, c.Feed)
	last, err := decision.LastCollected(ctx, tx, of)
	if err != nil {
		return nil, err
	}
	for _, d := range st.decisions { // of this batch
		if d.Subject == of && d.Collected.After(last) {
			last = d.Collected
		}
	}
	if c.Before.Time().After(last) {
		st.decide(e, decision.Decision{Subject: of, Verdict: decision.Collected, Standing: decision.NotCounting, Feed: c.Feed, Collected: c.Before.Time(),
			Reason: e.item.Event.Attributes[streams.ExtReason], Actor: e.item.Event.Attributes[streams.ExtActor], Command: &e.key.Delivery})
	}
	return nil, nil
}
