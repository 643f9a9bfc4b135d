package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/streams"
)

// beginRuns makes the runs exist that the batch brings something of, also a page that is refused, and takes their locks: from
// here on no other transaction decides about them.
func (st *settlement) beginRuns(ctx context.Context, tx pgx.Tx) error {
	var runs []run.Run
	for i, e := range st.batch.events {
		if e.feed != nil && e.run != "" && st.attempts[i].Outcome != offer.Duplicate {
			runs = append(runs, run.Run{Tenant: e.tenant, ID: run.ID(e.tenant, e.feed.Name, e.run), Feed: e.feed.Name, Name: e.run, RecordedAt: st.hold(e).RecordedAt})
		}
	}
	for i, e := range st.batch.events {
		if c, ok := e.command.(*decideRun); ok && st.attempts[i].Outcome == offer.Accepted {
			runs = append(runs, run.Run{Tenant: e.tenant, ID: c.subject.ID, Feed: c.Feed, Name: c.Run, RecordedAt: st.hold(e).RecordedAt})
		}
	}
	return run.Begin(ctx, tx, runs)
}

// settleRuns records what came of runs, once their rows are settled, and decides about those that are whole by it. The decision
// follows from the last event of the run in the batch.
func (st *settlement) settleRuns(ctx context.Context, tx pgx.Tx) error {
	var (
		pages   []run.Page
		events  []run.Event
		touched []decision.Subject
		lastOf  = map[decision.Subject]*event{}
	)
	wishes := map[decision.Subject][]*event{}
	for i, e := range st.batch.events {
		at := st.attempts[i]
		if at.Outcome != offer.Accepted {
			continue
		}
		if c, ok := e.command.(*decideRun); ok {
			touched = append(touched, c.subject)
			wishes[c.subject] = append(wishes[c.subject], e)
		}
		if e.feed == nil || e.run == "" {
			continue
		}
		subject := decision.Subject{Tenant: e.tenant, Kind: decision.Run, ID: run.ID(e.tenant, e.feed.Name, e.run)}
		if e.told != nil {
			told := *e.told
			told.RecordedAt = at.RecordedAt
			events = append(events, told)
		} else {
			pages = append(pages, e.pageOf(subject, at))
		}
		touched = append(touched, subject)
		lastOf[subject] = e
	}
	if len(touched) == 0 {
		return nil
	}
	if err := run.Record(ctx, tx, pages, events); err != nil {
		return err
	}
	// In a statement of its own, under the locks: it counts what others have committed before them too.
	standings, err := run.Standings(ctx, tx, decision.Sort(touched))
	if err != nil {
		return err
	}
	for i := range standings {
		s := &standings[i]
		if s.Completes() {
			st.decide(lastOf[s.Subject()], decision.Decision{Subject: s.Subject(), Verdict: decision.Completed, Standing: decision.Counting})
		}
		for _, e := range wishes[s.Subject()] {
			st.decide(e, e.command.(*decideRun).on(s, e))
		}
	}
	return nil
}

// pageOf is an accepted delivery as a page of its run: the first, where the event gives no number. It was taken when the event
// says, or else at the least time of its rows.
func (e *event) pageOf(subject decision.Subject, at *receipt.Attempt) run.Page {
	p := run.Page{Tenant: e.tenant, Run: subject.ID, Number: max(e.page, 1), Pages: e.pages, Delivery: e.key.Delivery, Rejected: at.Results.Rejected,
		RecordedAt: at.RecordedAt}
	_, p.Held = e.ofRun()
	if t := e.item.Event.Time; !t.IsZero() {
		p.ObservedAt = &t.Nanos
		return p
	}
	if e.earliest < math.MaxInt64 {
		p.ObservedAt = &e.earliest
	}
	return p
}

// A decideRun is the command of an operator who releases or rejects a run.
type decideRun struct {
	Feed string `json:"feed"`
	Run  string `json:"run"`

	verdict       decision.Verdict
	subject       decision.Subject
	reason, actor string
}

func readRelease(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readDecideRun(tenant, ev, decision.Released)
}

func readReject(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readDecideRun(tenant, ev, decision.Rejected)
}

func readDecideRun(tenant string, ev *delivery.Event, verdict decision.Verdict) (command, *offer.Fault) {
	c := &decideRun{verdict: verdict, reason: ev.Attributes[streams.ExtReason], actor: ev.Attributes[streams.ExtActor]}
	refused := func(path, message string) (command, *offer.Fault) {
		return nil, &offer.Fault{Reason: offer.ReasonSchemaInvalid, Path: path, Message: message}
	}
	d := json.NewDecoder(bytes.NewReader(ev.Data))
	d.DisallowUnknownFields()
	switch err := d.Decode(c); {
	case err != nil:
		return refused("", "a decision on a run is JSON with the members feed and run: "+err.Error())
	case c.Feed == "":
		return refused("feed", "is missing: want the name of the run's feed")
	case c.Run == "":
		return refused("run", "is missing: want the run id of its events")
	case c.reason == "":
		return refused("reason", "is missing: whoever decides on a run says why, in the extension reason")
	}
	c.subject = decision.Subject{Tenant: tenant, Kind: decision.Run, ID: run.ID(tenant, c.Feed, c.Run)}
	return c, nil
}

// apply refuses what would decide nothing. The decision itself is made under the lock of the run, once its pages are counted.
func (c *decideRun) apply(ctx context.Context, tx pgx.Tx, _ *settlement, _ *event) (*offer.Fault, error) {
	standings, err := run.Standings(ctx, tx, []decision.Subject{c.subject})
	if err != nil {
		return nil, err
	}
	refused := func(format string, args ...any) (*offer.Fault, error) {
		return &offer.Fault{Reason: offer.ReasonSchemaInvalid, Path: "run", Message: fmt.Sprintf(format, args...)}, nil
	}
	if len(standings) == 0 {
		return refused("feed %s has no run %q: offerlog runs list names those that there are", c.Feed, c.Run)
	}
	switch s := &standings[0]; {
	case c.verdict == decision.Rejected && s.Verdict == decision.Rejected:
		return refused("run %q is rejected already", c.Run)
	case c.verdict == decision.Released && s.Verdict != "" && s.Counts == s.Release():
		return refused("run %q counts already, as %s", c.Run, s.Verdict)
	}
	return nil, nil
}

// on is the decision that the command makes of a run as it stands.
func (c *decideRun) on(s *run.Standing, e *event) decision.Decision {
	d := decision.Decision{Subject: c.subject, Verdict: c.verdict, Standing: decision.NotCounting, Reason: c.reason, Actor: c.actor, Command: &e.key.Delivery}
	if c.verdict == decision.Released {
		d.Standing = s.Release()
	}
	return d
}
