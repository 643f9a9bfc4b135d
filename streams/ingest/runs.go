package ingest

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/pkg/snapshot"
)

// beginRuns makes the runs exist that the batch brings something of, also a page that is refused, and takes their locks: from
// here on no other transaction decides about them.
func (st *settlement) beginRuns(ctx context.Context, tx pgx.Tx) error {
	var runs []run.Run
	for i, e := range st.batch.events {
		of, outcome := e.runOf(), st.attempts[i].Outcome
		for _, c := range e.decidesRuns() {
			if outcome == offer.Accepted {
				runs = append(runs, run.Run{Tenant: e.tenant, ID: c.subject.ID, Feed: c.Feed, Name: c.Run, RecordedAt: st.hold(e).RecordedAt})
			}
		}
		// What is refused makes a run exist that it names, and no run of one.
		if of != nil && !e.readsAgain() && outcome != offer.Duplicate && (outcome == offer.Accepted || e.run != "") {
			of.RecordedAt = st.hold(e).RecordedAt
			runs = append(runs, *of)
		}
	}
	return run.Begin(ctx, tx, runs)
}

// settleRuns records what came of runs, once their rows are settled, and decides about those that are whole by it. The decision
// follows from the last event of the run in the batch.
func (st *settlement) settleRuns(ctx context.Context, tx pgx.Tx, accounts map[decision.Account]bool) error {
	var (
		pages   []run.Page
		events  []run.Event
		touched []decision.Subject
		lastOf  = map[decision.Subject]*event{}
	)
	type wish struct {
		*decideRun
		e *event
	}
	wishes := map[decision.Subject][]wish{}
	for i, e := range st.batch.events {
		at := st.attempts[i]
		if at.Outcome != offer.Accepted {
			continue
		}
		for _, c := range e.decidesRuns() {
			touched = append(touched, c.subject)
			wishes[c.subject] = append(wishes[c.subject], wish{c, e})
		}
		of := e.runOf()
		if of == nil {
			continue
		}
		subject := of.Subject()
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
	if len(touched) == 0 && len(accounts) == 0 {
		return nil
	}
	if err := run.Record(ctx, tx, pages, events); err != nil {
		return err
	}
	claimed := st.claimedNumbers()
	if err := snapshot.Record(ctx, tx, claimed, slices.Collect(maps.Keys(accounts))); err != nil {
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
			d, err := st.complete(ctx, tx, s, st.hold(lastOf[s.Subject()]).RecordedAt)
			if err != nil {
				return err
			}
			st.decide(lastOf[s.Subject()], d)
		}
		for _, w := range wishes[s.Subject()] {
			st.decide(w.e, st.asSnapshot(s, w.on(s, w.e), st.hold(w.e).RecordedAt))
		}
	}
	return st.implyDeletions(ctx, tx, accounts, claimed)
}

// complete decides about a run that is whole: it counts, unless the brake holds it. What an operator has released the brake
// never holds again.
func (st *settlement) complete(ctx context.Context, tx pgx.Tx, s *run.Standing, now time.Time) (decision.Decision, error) {
	done := decision.Decision{Subject: s.Subject(), Verdict: decision.Completed, Standing: decision.Counting}
	f := st.registry.Feed(s.Tenant, s.Feed)
	if f == nil || s.Released {
		return st.asSnapshot(s, done, now), nil
	}
	whole, b := f.Mode == feed.ModeSnapshot, f.Policy.Brake
	if whole || f.Policy.PartialRuns == feed.PartialRunsHold && (b.MaxDeleted != "" || b.MaxPriceMove != "") {
		at := decision.Account{Tenant: s.Tenant, Name: f.Account}
		beyond, err := snapshot.Judge(ctx, tx, at, s.ID, whole, snapshot.Limits{Lost: b.MaxRowsLost, Deleted: b.MaxDeleted, Moved: b.MaxPriceMove})
		if err != nil || beyond != "" {
			return decision.Decision{Subject: s.Subject(), Verdict: decision.Braked, Standing: decision.NotCounting, Reason: beyond}, err
		}
	}
	return st.asSnapshot(s, done, now), nil
}

// asSnapshot has a decision by which all of a snapshot feed's run counts imply deletions, where no row of it was rejected and
// each page says when it was taken. One that was taken in the future, further than claims may be, lacks nothing.
func (st *settlement) asSnapshot(s *run.Standing, d decision.Decision, now time.Time) decision.Decision {
	f := st.registry.Feed(s.Tenant, s.Feed)
	if f != nil && f.Mode == feed.ModeSnapshot && d.Standing == decision.Counting && s.Whole() && s.Rejected == 0 {
		if s.AsOf != nil && !f.Policy.Ahead(*s.AsOf, now) {
			d.AsOf, d.Account, d.Feed = s.AsOf, f.Account, f.Name
		}
	}
	return d
}

// snapshotAccounts are the accounts of a batch that a snapshot feed serves: true where the batch may complete a snapshot, or
// decide about one.
func (b *batch) snapshotAccounts(registry *feed.Registry) map[decision.Account]bool {
	accounts := map[decision.Account]bool{}
	concern := func(f *feed.Feed, decides bool) {
		if f == nil {
			return
		}
		if whole := registry.Snapshots(f.Tenant, f.Account); whole != nil {
			at := decision.Account{Tenant: f.Tenant, Name: f.Account}
			accounts[at] = accounts[at] || decides || whole.Name == f.Name
		}
	}
	for _, e := range b.events {
		switch c := e.command.(type) {
		case *decideRun:
			concern(registry.Feed(e.tenant, c.Feed), true)
		case *mappingDecision:
			concern(registry.Feed(e.tenant, c.Feed), true)
		case *windowDecision: // which runs it finds is not known yet
			for _, f := range registry.Feeds() {
				if f.Tenant == e.tenant {
					concern(f, true)
				}
			}
		default:
			concern(e.feed, false)
		}
	}
	return accounts
}

// claimedNumbers are those that the batch has given to its rows so far.
func (st *settlement) claimedNumbers() (n snapshot.Numbers) {
	for i, h := range st.held {
		n.Lanes, n.After, n.Last = append(n.Lanes, h.Lane), append(n.After, st.begin[i]), append(n.Last, h.Sequence)
	}
	return n
}

// implyDeletions adds the deletions that follow from the newest snapshot of each account: all of them where that is another one
// after this batch, or else those of the records that the batch claims as of before.
func (st *settlement) implyDeletions(ctx context.Context, tx pgx.Tx, accounts map[decision.Account]bool, claimed snapshot.Numbers) error {
	for _, at := range slices.SortedFunc(maps.Keys(accounts), decision.Account.Compare) {
		e := st.lastIn(at)
		if e == nil {
			continue
		}
		before, after, err := snapshot.Newest(ctx, tx, at, st.decisions)
		if err != nil {
			return err
		}
		if after == nil {
			continue
		}
		// What no version in force can read may be any record, so nothing is lacking; nor is a page that is still to be read.
		is, err := snapshot.IsRead(ctx, tx, at, after, st.decisions, slices.Concat(st.readBefore, st.readings()))
		if err != nil {
			return err
		}
		if !is {
			continue
		}
		all := before == nil || before.Run != after.Run || st.rereads(at, after.Run)
		err = snapshot.Lacking(ctx, tx, at, after, all, claimed, st.decisions, func(records []string) error {
			h := st.hold(e)
			gone := make([]*history.Observation, len(records))
			for i, record := range records {
				o := history.Imply(offer.Key{Tenant: at.Tenant, Account: at.Name, Record: record}, after.Feed, after.Run,
					offer.TimeOf(time.Unix(0, after.AsOf)), e.key.Delivery)
				h.Sequence++
				o.Lane, o.Seq, o.RecordedAt, o.RetrievedAt = h.Lane, h.Sequence, h.RecordedAt, e.retrieved
				gone[i] = &o
			}
			return history.Append(ctx, tx, gone)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rereads reports whether by this batch a snapshot of an account has other records than before: a page of it is read under another
// mapping version, or one of these is decided about.
func (st *settlement) rereads(at decision.Account, run uuid.UUID) bool {
	for i, e := range st.batch.events {
		switch of := e.runOf(); {
		case st.attempts[i].Outcome == offer.Reread && of != nil && of.ID == run:
			return true
		case st.attempts[i].Outcome == offer.Accepted && e.mappingOf(st.registry) == at:
			return true
		}
	}
	return false
}

// mappingOf is the account of the feed whose mapping version the event's command decides about; the zero one: it does not.
func (e *event) mappingOf(registry *feed.Registry) (at decision.Account) {
	if c, is := e.command.(*mappingDecision); is {
		if f := registry.Feed(e.tenant, c.Feed); f != nil {
			at = decision.Account{Tenant: f.Tenant, Name: f.Account}
		}
	}
	return at
}

// lastIn is the last event of the batch that claims something in an account, or decides about it; nil: none does.
func (st *settlement) lastIn(at decision.Account) (last *event) {
	in := func(f *feed.Feed) bool { return f != nil && f.Tenant == at.Tenant && f.Account == at.Name }
	for i, e := range st.batch.events {
		touches := in(e.feed) || e.mappingOf(st.registry) == at
		for _, c := range e.decidesRuns() {
			touches = touches || in(st.registry.Feed(e.tenant, c.Feed))
		}
		if outcome := st.attempts[i].Outcome; touches && (outcome == offer.Accepted || outcome == offer.Reread) {
			last = e
		}
	}
	return last
}

// pageOf is an accepted delivery as a page of its run: the first, where the event gives no number. It was taken when the event
// says, or else at the least time of its rows.
func (e *event) pageOf(subject decision.Subject, at *receipt.Attempt) run.Page {
	p := run.Page{Tenant: e.tenant, Run: subject.ID, Number: max(e.page, 1), Pages: e.pages, Delivery: e.key.Delivery, Rejected: at.Results.Rejected,
		RecordedAt: at.RecordedAt}
	p.Held = e.held()
	if e.run == "" {
		p.Pages = 1
	}
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
	ID   string `json:"id,omitempty"` // of a run of one, which its name does not give

	verdict       decision.Verdict
	subject       decision.Subject
	reason, actor string
}

// decidesRuns are the decisions on runs that an event's command makes.
func (e *event) decidesRuns() []*decideRun {
	switch c := e.command.(type) {
	case *decideRun:
		return []*decideRun{c}
	case *windowDecision:
		return c.runs
	}
	return nil
}

func readRelease(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readDecideRun(tenant, ev, decision.Released)
}

func readReject(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readDecideRun(tenant, ev, decision.Rejected)
}

func readDecideRun(tenant string, ev *delivery.Event, verdict decision.Verdict) (command, *offer.Fault) {
	c, fault := readData[decideRun](ev)
	if fault != nil {
		return nil, fault
	}
	c.verdict = verdict
	if c.actor, c.reason, fault = why(ev); fault != nil {
		return nil, fault
	}
	c.subject = decision.Subject{Tenant: tenant, Kind: decision.Run, ID: run.ID(tenant, c.Feed, c.Run)}
	if c.ID != "" {
		id, err := uuid.Parse(c.ID)
		if err != nil {
			return nil, refusal("/id", "is no id of a run")
		}
		c.subject.ID = id
	}
	return c, nil
}

// apply refuses what would decide nothing. The decision itself is made under the lock of the run, once its pages are counted.
func (c *decideRun) apply(ctx context.Context, tx pgx.Tx, st *settlement, _ *event) (*offer.Fault, error) {
	standings, err := run.Standings(ctx, tx, []decision.Subject{c.subject})
	if err != nil {
		return nil, err
	}
	refused := func(format string, args ...any) (*offer.Fault, error) {
		return refusal("/run", format, args...), nil
	}
	if len(standings) == 0 || standings[0].Feed != c.Feed || standings[0].Name != c.Run {
		return refused("feed %s has no run %q: offerlog runs list names those that there are", c.Feed, c.Run)
	}
	s := &standings[0]
	verdict, counts := s.Verdict, s.Verdict != "" && s.Counts == s.Release()
	if here, ok := st.runVerdicts[c.subject]; ok {
		verdict, counts = here, here == decision.Released
	}
	switch {
	case c.verdict == decision.Rejected && verdict == decision.Rejected:
		return refused("run %q is rejected already", c.Run)
	case c.verdict == decision.Released && counts:
		return refused("run %q counts already, as %s", c.Run, verdict)
	}
	st.runVerdicts[c.subject] = c.verdict
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
