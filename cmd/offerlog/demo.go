package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/settle"
	"github.com/offerlog/offerlog/testdata/feeds"
)

// demoTimeout is far above what the story takes.
const demoTimeout = 2 * time.Minute

// runDemo runs an installation and plays the story of acme-eu on it. A story that goes otherwise ends it with an error;
// one that goes as told ends it too where thenExit is set.
func (a *app) runDemo(ctx context.Context, in *installation, thenExit bool) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, playing := errgroup.WithContext(running)
	g.Go(func() error { return in.run(playing) })
	g.Go(func() error {
		err := a.demo(playing, in)
		told := ctx.Err() != nil
		switch failed := !told && playing.Err() != nil; {
		case failed, told && !thenExit: // the stage's error says more; to stop before the end of the story is no fault
			err = nil
		case err == nil && thenExit:
			stop()
		}
		return err
	})
	return g.Wait()
}

// A scene is one step of the story, and how it went.
type scene struct {
	Step    int    `json:"step,omitempty"` // 0: before the first
	What    string `json:"what"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"` // as read from the tables
	Differs string `json:"differs,omitempty"`
	OK      bool   `json:"ok"`
}

// A demo is one playing of the story.
type demo struct {
	app    *app
	in     *installation
	tenant string
	export feed.Spec
	stock  feed.Spec
	fresh  bool // nothing was there before: all of it must be new
	scenes int
	bad    int
}

// demo plays the story: each step publishes what a supplier would, waits until it is in the view, and holds what the
// tables say against what they must. On a folder that has the story already, what was accepted then is a duplicate now.
func (a *app) demo(ctx context.Context, in *installation) error {
	ctx, cancel := withTimeout(ctx, demoTimeout)
	defer cancel()
	d := demo{app: a, in: in}
	for _, f := range []struct {
		spec *feed.Spec
		name string
	}{{&d.export, "acme-eu/feed.yaml"}, {&d.stock, "acme-eu-stock/feed.yaml"}} {
		text, err := feeds.FS.ReadFile(f.name)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if *f.spec, err = feed.ParseYAML(f.name, text); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	d.tenant = d.export.Tenant
	for _, step := range []func(context.Context) error{d.begin, d.applyFeeds, d.publishExport, d.pageAgain, d.newerExport, d.changedPage, d.backfill, d.deletion, d.end} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if d.bad > 0 {
		return &exitError{exitFailed, "demo_differs", "run offerlog audit, and tell what the lines say that differ", fmt.Errorf("demo: %d of %d steps went otherwise", d.bad, d.scenes)}
	}
	return nil
}

// The record that the story is about, the deleted one, and what the story says of them.
const (
	demoRecord  = "AX-440-R2"
	demoDeleted = "BX-210"
)

func (d *demo) begin(ctx context.Context) error {
	n, err := d.claims(ctx)
	d.fresh = n == 0
	if !d.fresh {
		fmt.Fprintln(d.app.stderr, "note: the folder has data already; what it has of the story is answered as a duplicate")
	}
	return err
}

func (d *demo) applyFeeds(ctx context.Context) error {
	for _, spec := range []feed.Spec{d.export, d.stock} {
		r, err := d.app.commandFeed(ctx, d.in.kafka, d.in.pool, spec, decision{userName(), "offerlog dev --demo"})
		if err != nil {
			return err
		}
		detail := "applied"
		if !r.Changed {
			detail = "was in force"
		}
		s := scene{What: fmt.Sprintf("feed %s@%d of tenant %s", r.Feed, r.MappingVersion, r.Tenant), Outcome: string(r.Outcome), Detail: detail}
		if err := d.tell(s); err != nil {
			return err
		}
	}
	return nil
}

// publishExport: 400 part records in three pages.
func (d *demo) publishExport(ctx context.Context) error {
	attempts, err := d.deliver(ctx, d.export, "EXP-8821", "acme-eu/EXP-8821.1.json", "acme-eu/EXP-8821.2.json", "acme-eu/EXP-8821.3.json")
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, at := range attempts {
		for _, id := range at.Observations {
			ids[id] = true
		}
	}
	o, err := d.claimed(ctx, "EXP-8821/2")
	if err != nil {
		return err
	}
	s := scene{Step: 1, What: "export EXP-8821, 3 pages, 400 part records", Outcome: outcomeOf(attempts),
		Detail: fmt.Sprintf("%d observations, %s qty %s %s observed %s", len(ids), demoRecord, o.Quantity, money(o.Content), wallClock(o.ObservedAt))}
	d.accepted(&s, attempts)
	s.want("observations", len(ids), 400)
	s.want("quantity", o.Quantity.String(), "6")
	return d.tell(s)
}

// pageAgain: the publisher did not hear that page 2 was taken.
func (d *demo) pageAgain(ctx context.Context) error {
	before, err := d.claims(ctx)
	if err != nil {
		return err
	}
	attempts, err := d.deliver(ctx, d.export, "EXP-8821/2", "acme-eu/EXP-8821.2.json")
	if err != nil {
		return err
	}
	after, err := d.claims(ctx)
	if err != nil {
		return err
	}
	first, err := d.first(ctx, "EXP-8821/2")
	if err != nil {
		return err
	}
	again := attempts[0]
	s := scene{Step: 2, What: "page 2 again (lost acknowledgement)", Outcome: outcomeOf(attempts),
		Detail: fmt.Sprintf("same %d observations, attempt %d, %d new", len(again.Observations), again.Attempts, after-before)}
	s.want("outcome", s.Outcome, string(offer.Duplicate))
	s.want("new claims", after-before, int64(0))
	s.want("same observations", slices.Equal(again.Observations, first.Observations), true)
	if d.fresh {
		s.want("attempt", again.Attempts, 2)
	}
	return d.tell(s)
}

// newerExport: the next export has another quantity.
func (d *demo) newerExport(ctx context.Context) error {
	attempts, err := d.deliver(ctx, d.export, "EXP-8822", "acme-eu/EXP-8822.json")
	if err != nil {
		return err
	}
	o, err := d.claimed(ctx, "EXP-8822")
	if err != nil {
		return err
	}
	now, err := d.current(ctx, demoRecord)
	if err != nil {
		return err
	}
	s := scene{Step: 3, What: "export EXP-8822", Outcome: outcomeOf(attempts),
		Detail: fmt.Sprintf("%s qty %s; current offer: qty %s", demoRecord, o.Quantity, now.Quantity)}
	d.accepted(&s, attempts)
	s.want("current quantity", now.Quantity.String(), "4")
	return d.tell(s)
}

// changedPage: the id of page 2 with another content.
func (d *demo) changedPage(ctx context.Context) error {
	before, err := d.claimed(ctx, "EXP-8821/2")
	if err != nil {
		return err
	}
	attempts, err := d.deliver(ctx, d.export, "EXP-8821/2", "acme-eu/EXP-8821.2-changed.json")
	if err != nil {
		return err
	}
	after, err := d.claimed(ctx, "EXP-8821/2")
	if err != nil {
		return err
	}
	at := attempts[0]
	s := scene{Step: 4, What: "EXP-8821/2 with qty 5", Outcome: outcomeOf(attempts),
		Detail: fmt.Sprintf("%s, original unchanged: qty %s", at.Reason, after.Quantity)}
	s.want("outcome", string(at.Outcome), string(offer.Quarantined))
	s.want("reason", at.Reason, offer.ReasonReplayPayloadMismatch)
	s.want("original", after.ObservationID+" "+after.Quantity.String(), before.ObservationID+" 6")
	return d.tell(s)
}

// backfill: an export of 07:30 that comes last.
func (d *demo) backfill(ctx context.Context) error {
	before, err := d.history(ctx, demoRecord)
	if err != nil {
		return err
	}
	attempts, err := d.deliver(ctx, d.export, "EXP-8790", "acme-eu/EXP-8790.json")
	if err != nil {
		return err
	}
	after, err := d.history(ctx, demoRecord)
	if err != nil {
		return err
	}
	now, err := d.current(ctx, demoRecord)
	if err != nil {
		return err
	}
	s := scene{Step: 5, What: "late backfill 07:30Z", Outcome: outcomeOf(attempts),
		Detail: fmt.Sprintf("history +%d; current offer still qty %s", len(after)-len(before), now.Quantity)}
	d.accepted(&s, attempts)
	s.want("history", len(after), 3)
	s.want("current quantity", now.Quantity.String(), "4")
	return d.tell(s)
}

// deletion: version 9 deletes the record, and version 8 comes after it.
func (d *demo) deletion(ctx context.Context) error {
	deleted, err := d.deliver(ctx, d.stock, "BX-210.v9", "acme-eu-stock/BX-210.v9-deleted.json")
	if err != nil {
		return err
	}
	older, err := d.deliver(ctx, d.stock, "BX-210.v8", "acme-eu-stock/BX-210.v8.json")
	if err != nil {
		return err
	}
	now, err := d.current(ctx, demoDeleted)
	if err != nil {
		return err
	}
	first, err := d.first(ctx, "BX-210.v8")
	if err != nil {
		return err
	}
	s := scene{Step: 6, What: "delete v9, then old v8", Outcome: outcomeOf(older),
		Detail: fmt.Sprintf("%s is at v%s, deleted: %t; v8 joins the history: %s", demoDeleted, now.Version, now.Deleted, results(first.Results))}
	if older[0].Outcome == offer.Accepted && first.Results.Old == 1 {
		s.Outcome = "old"
	}
	d.accepted(&s, append(deleted, older...))
	s.want("old rows", first.Results.Old, 1)
	s.want("deleted", now.Deleted, true)
	s.want("version", now.Version, "9")
	return d.tell(s)
}

func (d *demo) end(context.Context) error {
	if d.app.json {
		return nil
	}
	_, err := fmt.Fprintf(d.app.stdout, "try      offerlog offers --record %s      offerlog observations --record %[1]s      offerlog audit\n", demoRecord)
	return err
}

// tell prints a scene.
func (d *demo) tell(s scene) error {
	s.OK = s.Differs == ""
	d.scenes++
	if !s.OK {
		d.bad++
	}
	if d.app.json {
		return json.NewEncoder(d.app.stdout).Encode(s)
	}
	verdict := "ok"
	if !s.OK {
		verdict = "DIFFERS: " + s.Differs
	}
	step := "·"
	if s.Step > 0 {
		step = decimal(int64(s.Step))
	}
	_, err := fmt.Fprintf(d.app.stdout, "%s %-42s %-9s  %-62s  %s\n", step, s.What, s.Outcome, s.Detail, verdict)
	return err
}

// wallClock is the time of day of a time in UTC, to the minute.
func wallClock(rfc3339 string) string {
	return rfc3339[len("2006-01-02T"):len("2006-01-02T15:04")] + "Z"
}

// want notes what is not as it must be.
func (s *scene) want(what string, got, want any) {
	if got == want {
		return
	}
	if s.Differs != "" {
		s.Differs += "; "
	}
	s.Differs += fmt.Sprintf("%s: got %v, want %v", what, got, want)
}

// accepted wants attempts that were taken: now, or when the story was played before.
func (d *demo) accepted(s *scene, attempts []receipt.Document) {
	for _, at := range attempts {
		if at.Outcome != offer.Duplicate || d.fresh {
			s.want("outcome of "+at.EventID, string(at.Outcome), string(offer.Accepted))
		}
	}
}

// outcomeOf is the outcome of attempts, or theirs.
func outcomeOf(attempts []receipt.Document) string {
	var all []string
	for _, at := range attempts {
		o := string(at.Outcome)
		if at.Reason == offer.ReasonReplayPayloadMismatch {
			o = "MISMATCH"
		}
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return strings.Join(all, ", ")
}

// deliver publishes files as one delivery, or as its pages, and returns what became of them once it is in the view.
func (d *demo) deliver(ctx context.Context, spec feed.Spec, id string, files ...string) ([]receipt.Document, error) {
	pages := make([]page, len(files))
	for i, name := range files {
		payload, err := feeds.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages[i] = pageOf(id, i, len(files), name, payload)
	}
	records, err := deliveriesOf(spec, "", pages)
	if err != nil {
		return nil, err
	}
	done, err := produce(ctx, d.in.kafka, d.app.settings.Cluster(), records)
	if err != nil {
		return nil, err
	}
	attempts, err := awaitOutcomes(ctx, d.in.pool, d.tenant, done)
	if err != nil {
		return nil, err
	}
	if len(attempts) != len(files) {
		return nil, fmt.Errorf("%s: %d events have %d outcomes", id, len(files), len(attempts))
	}
	_, err = settle.Wait(ctx, d.in.pool, d.app.settings.Cluster(), []string{streams.Deliveries, streams.Commands})
	return attempts, err
}

func (d *demo) read(ctx context.Context, f func(tx pgx.Tx) error) error {
	return postgres.AsTenant(ctx, d.in.pool, postgres.Audit, d.tenant, f)
}

// first returns the accepted attempt of a delivery of one of the two feeds.
func (d *demo) first(ctx context.Context, id string) (first receipt.Document, err error) {
	err = d.read(ctx, func(tx pgx.Tx) error {
		attempts, err := receipt.Of(ctx, tx, d.delivery(id))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(attempts, func(at receipt.Document) bool { return at.Outcome == offer.Accepted })
		if i < 0 {
			return errors.New(id + " was never accepted")
		}
		first = attempts[i]
		return nil
	})
	return first, err
}

func (d *demo) delivery(id string) offer.DeliveryID {
	spec := d.export
	if strings.HasPrefix(id, demoDeleted) {
		spec = d.stock
	}
	who := offer.Source{Tenant: spec.Tenant, Connector: spec.Connector, Account: spec.Account}
	return offer.ReplayKey{Source: who, EventSource: spec.Accepts.Source, EventID: id}.ID()
}

// claimed is what a delivery claimed about the story's record.
func (d *demo) claimed(ctx context.Context, id string) (history.Document, error) {
	delivery := d.delivery(id)
	list, err := d.observations(ctx, history.Filter{Record: demoRecord, Delivery: &delivery, Limit: 2})
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("%s has %d observations of %s, want 1", id, len(list), demoRecord)
	}
	if err != nil {
		return history.Document{}, err
	}
	return list[0], nil
}

func (d *demo) history(ctx context.Context, record string) ([]history.Document, error) {
	return d.observations(ctx, history.Filter{Account: d.export.Account, Record: record, Limit: 100})
}

func (d *demo) observations(ctx context.Context, f history.Filter) (list []history.Document, err error) {
	err = d.read(ctx, func(tx pgx.Tx) error {
		found, err := history.List(ctx, tx, f)
		for i := range found {
			list = append(list, found[i].Document())
		}
		return err
	})
	return list, err
}

// current is the offer of a record as it stands, deleted or not.
func (d *demo) current(ctx context.Context, record string) (now view.Document, err error) {
	err = d.read(ctx, func(tx pgx.Tx) error {
		list, err := view.Offers(ctx, tx, view.Filter{Account: d.export.Account, Record: record, IncludeDeleted: true})
		if err == nil && len(list) != 1 {
			err = fmt.Errorf("%d offers of %s, want 1", len(list), record)
		}
		if err == nil {
			now = list[0]
		}
		return err
	})
	return now, err
}

// claims counts all that the tenant's deliveries have stated.
func (d *demo) claims(ctx context.Context) (n int64, err error) {
	err = inspect(ctx, d.in.pool, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*) FROM audit_v1.claim AS c WHERE c.tenant = $1", d.tenant).Scan(&n)
	})
	return n, err
}
