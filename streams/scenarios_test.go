package streams_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// Every scene of testdata/scenarios gives the same output however the work is cut into batches and partitions, on the fake
// broker and on Apache Kafka. The commands of a scene are the methods of stage below.
func TestS_000_05_S_000_12_S_000_42_S_000_43_S_000_45_S_000_50_S_000_51_S_004_07_S_004_21_scenes(t *testing.T) {
	for name, o := range map[string]pipeline.Options{
		"one partition, batches of 1":    {Partitions: 1, MaxRecords: 1},
		"one partition, batches of 500":  {Partitions: 1, MaxRecords: 500},
		"six partitions, batches of 1":   {Partitions: 6, MaxRecords: 1},
		"six partitions, batches of 500": {Partitions: 6, MaxRecords: 500},
		"Apache Kafka":                   {RealKafka: true, Partitions: 6},
	} {
		t.Run(name, func(t *testing.T) {
			feeds, err := filepath.Abs(filepath.Join("..", "testdata", "feeds"))
			if err != nil {
				t.Fatal(err)
			}
			testscript.Run(t, testscript.Params{
				Dir: filepath.Join("..", "testdata", "scenarios"),
				Setup: func(env *testscript.Env) error {
					env.Setenv("FEEDS", feeds)
					t := env.T().(testing.TB)
					p := pipeline.New(t, o)
					p.Topics(streams.Deliveries)
					p.StartAll()
					env.Values[stageKey{}] = &stage{t: t, p: p, feeds: map[string]feed.Spec{}}
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"feed":         command((*stage).feed),
					"deliver":      command((*stage).deliver),
					"settle":       command((*stage).settle),
					"deliveries":   command((*stage).deliveries),
					"offers":       command((*stage).offers),
					"observations": command((*stage).observations),
					"evidence":     command((*stage).evidence),
					"runs":         command((*stage).runs),
					"decide":       command((*stage).decide),
					"verify":       command((*stage).verify),
				},
			})
		})
	}
}

type stageKey struct{}

// A stage is what a scene plays on.
type stage struct {
	t     testing.TB
	p     *pipeline.Pipeline
	feeds map[string]feed.Spec
}

func command(do func(*stage, *testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, negated bool, args []string) {
		if negated {
			ts.Fatalf("no command of a scene can be negated")
		}
		do(ts.Value(stageKey{}).(*stage), ts, args)
	}
}

// feed FILE applies a feed.
func (s *stage) feed(ts *testscript.TestScript, args []string) {
	want(ts, args, "FILE")
	spec, err := feed.ParseFile(ts.MkAbs(args[0]))
	ts.Check(err)
	s.p.ApplyFeed(spec)
	s.feeds[spec.Feed] = spec
}

// deliver FEED ID FILE [ATTRIBUTE=VALUE]... publishes an event of a feed. Those of one feed keep their order.
func (s *stage) deliver(ts *testscript.TestScript, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: deliver FEED ID FILE [ATTRIBUTE=VALUE]...")
	}
	spec := s.known(ts, args[0])
	body, err := os.ReadFile(ts.MkAbs(args[2]))
	ts.Check(err)
	attributes := map[string]string{"id": args[1], "source": spec.Accepts.Source}
	for _, a := range args[3:] {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			ts.Fatalf("want ATTRIBUTE=VALUE, got %q", a)
		}
		attributes[name] = value
	}
	s.p.Publish(pipeline.Event(spec.Accepts.Topics[0], spec.Feed, body, attributes))
}

// settle waits until all that was delivered is in the view and on current-offers.
func (s *stage) settle(ts *testscript.TestScript, args []string) {
	want(ts, args, "")
	s.p.SettleOffers()
}

// deliveries FEED prints what became of each event of the feed, in the order of their arrival.
func (s *stage) deliveries(ts *testscript.TestScript, args []string) {
	want(ts, args, "FEED")
	for _, a := range s.attempts(ts, args[0]) {
		var what []string
		for _, r := range []struct {
			n    int
			word string
		}{{a.Saved, "saved"}, {a.Duplicate, "duplicate"}, {a.Old, "old"}, {a.AmbiguousOrder, "ambiguous"}, {a.Rejected, "rejected"}} {
			if r.n > 0 {
				what = append(what, fmt.Sprint(r.n, " ", r.word))
			}
		}
		print(ts, fmt.Sprintf("%-10s  %-11s  %s", a.EventID, a.Outcome, a.Reason+strings.Join(what, ", ")))
	}
}

// offers [RECORD] prints the view: all offers, or one.
func (s *stage) offers(ts *testscript.TestScript, args []string) {
	if len(args) > 1 {
		ts.Fatalf("usage: offers [RECORD]")
	}
	for _, o := range s.p.Offers(s.tenant(ts)) {
		if len(args) == 0 || o.Record == args[0] {
			line := o.Record + claim(&o.Document)
			if len(o.Flags) > 0 {
				line += "  " + strings.Join(o.Flags, " ")
			}
			print(ts, line)
		}
	}
}

// observations [-json] ACCOUNT RECORD prints the history of a record, the newest claim first.
func (s *stage) observations(ts *testscript.TestScript, args []string) {
	asJSON := len(args) > 0 && args[0] == "-json"
	if asJSON {
		args = args[1:]
	}
	want(ts, args, "ACCOUNT RECORD")
	for _, o := range s.p.Observations(s.tenant(ts)) {
		switch {
		case o.Account != args[0] || o.Record != args[1]:
		case asJSON:
			b, err := json.Marshal(o)
			ts.Check(err)
			print(ts, string(b))
		default:
			print(ts, o.ObservedAt+claim(&o))
		}
	}
}

// claim is what an observation says, in words.
func claim(o *history.Document) string {
	var b strings.Builder
	if o.Version != "" {
		fmt.Fprintf(&b, "  version %s", o.Version)
	}
	if o.Deleted {
		b.WriteString("  deleted")
	}
	if q := o.Quantity.String(); q != "" {
		fmt.Fprintf(&b, "  %s pieces", q)
	}
	if p := o.Price.String(); p != "" {
		fmt.Fprintf(&b, "  %s %s", p, o.Currency)
	}
	return b.String()
}

// evidence FEED ID OUTCOME prints the archived payload of the event that came to that outcome.
func (s *stage) evidence(ts *testscript.TestScript, args []string) {
	want(ts, args, "FEED ID OUTCOME")
	for _, a := range s.attempts(ts, args[0]) {
		if a.EventID != args[1] || string(a.Outcome) != args[2] {
			continue
		}
		kept, err := s.p.Archive.Read(s.t.Context(), a.Tenant, archive.Ref{Name: a.Object}, a.Offset, a.Item)
		ts.Check(err)
		_, err = ts.Stdout().Write(kept.Payload)
		ts.Check(err)
		return
	}
	ts.Fatalf("no event %s was %s", args[1], args[2])
}

// runs prints every run: how it stands, which pages are there and which are not, what failed and what was decided.
func (s *stage) runs(ts *testscript.TestScript, args []string) {
	want(ts, args, "")
	ts.Check(postgres.AsTenant(s.t.Context(), s.p.Pool, postgres.Audit, s.tenant(ts), func(tx pgx.Tx) error {
		found, err := run.List(s.t.Context(), tx, run.Filter{Limit: 100}, time.Now())
		slices.SortFunc(found, func(a, b run.Document) int { return cmp.Compare(a.Run, b.Run) })
		for _, d := range found {
			print(ts, fmt.Sprintf("%s  %s  %s  pages %v of %d", d.Connector, d.Run, d.State, d.PagesSeen, d.Pages))
			if d.StartedAt != "" {
				print(ts, fmt.Sprintf("  started %s with %s, %d pages asked for", d.StartedAt, d.Credential, d.PagesAsked))
			}
			for _, f := range d.Failures {
				print(ts, fmt.Sprintf("  failed page %d, attempt %d, %s: %s", f.Page, f.Attempt, f.At, f.Error))
			}
			for _, x := range d.Decisions {
				print(ts, strings.TrimRight(fmt.Sprintf("  %s  %s", x.Verdict, x.Reason), " "))
			}
		}
		return err
	}))
}

// decide release|reject FEED RUN REASON publishes an operator's decision on a run and waits for it.
func (s *stage) decide(ts *testscript.TestScript, args []string) {
	want(ts, args, "VERB FEED RUN REASON")
	kind := map[string]string{"release": streams.RunRelease, "reject": streams.RunReject}[args[0]]
	var found []run.Document
	ts.Check(postgres.AsTenant(s.t.Context(), s.p.Pool, postgres.Audit, s.tenant(ts), func(tx pgx.Tx) (err error) {
		found, err = run.List(s.t.Context(), tx, run.Filter{Feed: args[1], Name: args[2], Limit: 2}, time.Now())
		return err
	}))
	if len(found) != 1 {
		ts.Fatalf("feed %s has %d runs %s, want one", args[1], len(found), args[2])
	}
	body, err := json.Marshal(map[string]string{"feed": args[1], "run": args[2], "id": found[0].ID})
	ts.Check(err)
	if refusal := s.p.Command(s.tenant(ts), kind, body, map[string]string{streams.ExtReason: args[3], streams.ExtActor: "scene"}); refusal != "" {
		ts.Fatalf("refused: %s", refusal)
	}
	s.p.SettleOffers()
}

// verify audits everything: history against evidence, topics against history, the view against history.
func (s *stage) verify(ts *testscript.TestScript, args []string) {
	want(ts, args, "")
	report, err := audit.Run(s.t.Context(), audit.Inputs{Pool: s.p.Pool, Cluster: s.p.Cluster, Archive: s.p.Archive, Mapper: s.p.Mapper})
	ts.Check(err)
	if !report.OK() {
		var b strings.Builder
		ts.Check(report.Write(&b))
		ts.Fatalf("the audit found:\n%s", b.String())
	}
}

// An attempt is what became of one event.
type attempt struct {
	Tenant    string
	Partition int32
	Offset    int64
	Item      int
	EventID   string
	Outcome   offer.Outcome
	Reason    string
	offer.Results
	Object string // of the archive
}

// attempts are those of a feed, by partition and offset.
func (s *stage) attempts(ts *testscript.TestScript, name string) (list []attempt) {
	ts.Check(postgres.InTx(s.t.Context(), s.p.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		rows, err := tx.Query(s.t.Context(), `
			SELECT o.tenant, o.partition, o."offset", o.item, o.event_id, o.outcome, coalesce(o.reason, ''), o.saved, o.duplicate, o.old,
			       o.ambiguous_order, o.rejected, coalesce(o.artifact_id, '')
			  FROM audit_v1.outcome AS o
			 WHERE (o.tenant, o.feed) = ($1, $2)`, s.known(ts, name).Tenant, name)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a attempt, err error) {
			return a, row.Scan(&a.Tenant, &a.Partition, &a.Offset, &a.Item, &a.EventID, &a.Outcome, &a.Reason, &a.Saved, &a.Duplicate, &a.Old,
				&a.AmbiguousOrder, &a.Rejected, &a.Object)
		})
		return err
	}))
	slices.SortFunc(list, func(a, b attempt) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Item, b.Item))
	})
	return list
}

func (s *stage) known(ts *testscript.TestScript, name string) feed.Spec {
	spec, ok := s.feeds[name]
	if !ok {
		ts.Fatalf("no feed %s was applied", name)
	}
	return spec
}

// tenant is the one that all feeds of a scene have.
func (s *stage) tenant(ts *testscript.TestScript) (tenant string) {
	for _, spec := range s.feeds {
		if tenant != "" && spec.Tenant != tenant {
			ts.Fatalf("the feeds of a scene have one tenant, not %s and %s", tenant, spec.Tenant)
		}
		tenant = spec.Tenant
	}
	return tenant
}

func want(ts *testscript.TestScript, args []string, names string) {
	if len(args) != len(strings.Fields(names)) {
		ts.Fatalf("got %d arguments, want %s", len(args), cmp.Or(names, "none"))
	}
}

func print(ts *testscript.TestScript, line string) {
	_, err := fmt.Fprintln(ts.Stdout(), strings.TrimRight(line, " "))
	ts.Check(err)
}
