package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func text(t *testing.T, r audit.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAHealthyInstallationHasNoViolation(t *testing.T) {
	for name, o := range map[string]pipeline.Options{
		"on the fake broker":                   {},
		"on the fake broker, record by record": {Partitions: 1, MaxRecords: 1},
		"on Apache Kafka":                      {RealKafka: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, newWorld(t, o).inputs())
			if !r.OK() {
				t.Fatalf("the report:\n%s", text(t, r))
			}
			for _, i := range r.Invariants {
				if len(i.Checked) == 0 || len(i.NotChecked) > 0 {
					t.Errorf("%s: got %v and not %v, want all of it checked", i.ID, i.Checked, i.NotChecked)
				}
				for _, c := range i.Checked {
					if c.N == 0 {
						t.Errorf("%s: no %s were checked", i.ID, c.Noun)
					}
				}
			}
		})
	}
}

func TestAnEmptyInstallationHasNoViolation(t *testing.T) {
	w := &world{Pipeline: pipeline.New(t, pipeline.Options{})}
	w.Topics()
	if r := run(t, w.inputs()); !r.OK() {
		t.Errorf("the report:\n%s", text(t, r))
	}
}

// What moves while it is looked at is no violation.
func TestAnInstallationAtWorkHasNoViolation(t *testing.T) {
	p := pipeline.New(t, pipeline.Options{MaxRecords: 7})
	p.Topics(streams.Deliveries)
	p.StartAll()
	spec, err := feed.ParseYAML("feed.yaml", []byte(strongFeed))
	if err != nil {
		t.Fatal(err)
	}
	p.ApplyFeed(spec)
	rng := rand.New(rand.NewPCG(3, 5))
	for round := range 8 {
		var records []*kgo.Record
		for i := range 150 {
			records = append(records, event("/strong", fmt.Sprint(round, "-", i), "["+row(fmt.Sprint(i%50), 1+round, "")+"]"))
		}
		p.Feed(rng, records...)
		in := audit.Inputs{Pool: p.Pool, Cluster: p.Cluster, Archive: p.Archive, Mapper: mapper}
		if r := run(t, in); !r.OK() {
			t.Fatalf("round %d: the report:\n%s", round, text(t, r))
		}
	}
	p.SettleOffers()
}

// A pruned slot would be empty in the middle of a snapshot that does not know it as pruned.
func TestTheOutboxIsNotPrunedWhileItIsAudited(t *testing.T) {
	w := newWorld(t, pipeline.Options{})
	prune := func(ctx context.Context) (p outbox.Pruned, err error) {
		err = postgres.InTx(ctx, w.Pool, postgres.Janitor, func(tx pgx.Tx) (err error) {
			p, err = outbox.Prune(ctx, tx, 0)
			return err
		})
		return p, err
	}
	if p, err := prune(t.Context()); err != nil || !p.Moved {
		t.Fatalf("got %+v, %v, want a slot that can be emptied", p, err)
	}
	in := w.inputs()
	in.Archive = pruning{in.Archive, func(ctx context.Context) {
		if _, err := prune(ctx); !errors.Is(err, outbox.ErrBusy) {
			t.Errorf("while the audit runs: got %v, want %v", err, outbox.ErrBusy)
		}
	}}
	if r := run(t, in); !r.OK() {
		t.Errorf("the report:\n%s", text(t, r))
	}
	if p, err := prune(t.Context()); err != nil || p.Emptied != 1 {
		t.Fatalf("after it: got %+v, %v, want a slot emptied", p, err)
	}
	if r := run(t, w.inputs()); !r.OK() {
		t.Errorf("pruned: the report:\n%s", text(t, r))
	}
}

// pruning does something whenever an object is verified.
type pruning struct {
	audit.Archive
	f func(ctx context.Context)
}

func (p pruning) Verify(ctx context.Context, tenant string, ref archive.Ref) ([]archive.Member, error) {
	p.f(ctx)
	return p.Archive.Verify(ctx, tenant, ref)
}

// Where the log no longer holds what was delivered, payloads are read again from the archive as far as they say all of it.
func TestWhatTheLogNoLongerHoldsIsReadFromTheArchive(t *testing.T) {
	w := newWorld(t, pipeline.Options{})
	admin := kadm.NewClient(w.Client)
	ends, err := admin.ListEndOffsets(t.Context(), w.Cluster.Topic(streams.Deliveries))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	r := run(t, w.inputs())
	if !r.OK() || !strings.Contains(text(t, r), "deliveries/0: the log no longer holds them") {
		t.Errorf("the report:\n%s", text(t, r))
	}
	in, super := w.copy(t)
	without := audit.Inputs{Pool: in.Pool, Archive: in.Archive, Mapper: in.Mapper}
	if r := run(t, without); !r.OK() || !strings.Contains(text(t, r), "there is no cluster to read") {
		t.Errorf("without a cluster: the report:\n%s", text(t, r))
	}
	if _, err := super.Exec(t.Context(), `UPDATE observation SET price = price + 1`+recordC); err != nil {
		t.Fatal(err)
	}
	if r := run(t, without); violated(r) != "I5 I6 I19" {
		t.Errorf("a price was changed: the report:\n%s", text(t, r))
	}
}

func TestWhatIsMissingIsReportedAsNotChecked(t *testing.T) {
	got := text(t, run(t, audit.Inputs{Pool: pipeline.New(t, pipeline.Options{}).Pool}))
	want := `I1   not checked
     not checked: there is no cluster to read
I2   ok      0 outcomes
I3   ok      0 receipts, 0 repeats
I4   ok      0 archived payloads
     not checked: there is no archive to read
I5   not checked
     not checked: there is no mapper to read payloads again
I6   not checked
I7   ok      0 lanes, 0 intervals
I8   ok      0 numbers of history, 0 events in the outbox
I9   not checked
     not checked: there is no cluster to read
I10  not checked
     not checked: there is no cluster to read
I11  not checked
     not checked: there is no cluster to read
I12  not checked
     not checked: nothing was projected yet
I13  not checked
     not checked: there is no cluster to read
     not checked: nothing was projected yet
I16  ok      0 changes of offers
I17  not checked
     not checked: there is no cluster to read
     not checked: nothing was projected yet
I18  ok      1 generations
     not checked: nothing was projected yet
I19  not checked
     not checked: nothing was projected yet
     not checked: there is no archive to read
     not checked: there is no cluster to read
     not checked: there is no mapper to read payloads again
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAReportShowsAHundredViolationsAndCountsAll(t *testing.T) {
	w := newWorld(t, pipeline.Options{})
	in, super := w.copy(t)
	if _, err := super.Exec(t.Context(), `INSERT INTO receipt (tenant, delivery, canonicalization, fingerprint, lane, "offset", item)
	                                      SELECT 't1', gen_random_uuid(), 'json/1', '\x00', 1, 0, 0 FROM generate_series(1, 140)`); err != nil {
		t.Fatal(err)
	}
	r := run(t, in)
	if i := r.Invariants[2]; i.Found != 140 || len(i.Violations) != 100 {
		t.Errorf("got %d violations, %d of them shown, want 140 and 100", i.Found, len(i.Violations))
	}
	if got := text(t, r); !strings.Contains(got, "\nI3   FAILED  200 receipts") || !strings.HasSuffix(got, "\nI3: 40 more\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestAReportAsJSON(t *testing.T) {
	v := audit.Violation{Invariant: "I9", What: "an event is published twice", Detail: "also at offset 0",
		Where: audit.Where{Topic: "observations", Partition: new(int32(0)), Lane: 2, Offset: new(int64(0)), Seq: 7}}
	r := audit.Report{Invariants: []audit.Invariant{{ID: "I9", Checked: []audit.Count{{N: 3, Noun: "events"}}, Found: 1, Violations: []audit.Violation{v}}}}
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"invariants":[{"invariant":"I9","checked":[{"n":3,"noun":"events"}],"violations_found":1,"violations":[` +
		`{"invariant":"I9","what":"an event is published twice","topic":"observations","partition":0,"lane":2,"offset":0,"laneseq":7,"detail":"also at offset 0"}]}]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := v.String(), "I9: an event is published twice: topic observations, partition 0, lane 2, offset 0, number 7 (also at offset 0)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A rowCount is the most rows that a statement has returned which reads claims, however many there are.
type rowCount struct{ most int64 }

type readsClaims struct{}

func (c *rowCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, readsClaims{}, strings.HasPrefix(q.SQL, "-- The claims $2 < seq"))
}

func (c *rowCount) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	if ctx.Value(readsClaims{}) == true {
		c.most = max(c.most, q.CommandTag.RowsAffected())
	}
}

// A delivery may have a million rows: what is held of history does not grow with them, nor with the deliveries that are read together.
func TestClaimsAreHeldAFewAtATime(t *testing.T) {
	w := newWorld(t, pipeline.Options{Partitions: 1})
	audit.ReadHistory(t, 2)
	for name, d := range map[string]struct{ sql, violated, first string }{
		"nothing is wrong":              {"", "", ""},
		"a claim is of another row":     {`UPDATE observation SET row = 2` + recordC, "I5 I9 I19", "I5: a claim has no row in its payload"},
		"claims are in another order":   {`UPDATE observation SET row = 3 - row WHERE record IN ('A', 'B') AND account = 'ACC-1' AND ord IN (1, 3)`, "I5 I9 I19", "I5: the claims of a delivery are not in the order of its rows"},
		"a claim is of another's event": {`UPDATE observation SET delivery = gen_random_uuid()` + recordC, "I5 I9 I19", "I5: history holds a claim of a delivery that did not make it"},
	} {
		t.Run(name, func(t *testing.T) {
			in, super := w.copy(t)
			if tag, err := super.Exec(t.Context(), d.sql); err != nil || d.sql != "" && tag.RowsAffected() == 0 {
				t.Fatalf("plant the defect: %v, %v", tag, err)
			}
			count := &rowCount{}
			cfg := in.Pool.Config()
			cfg.ConnConfig.Tracer = count
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			in.Pool = pool
			r := run(t, in)
			if got := violated(r); got != d.violated || !strings.Contains(text(t, r), d.first) {
				t.Errorf("got %q, want %q and %q:\n%s", got, d.violated, d.first, text(t, r))
			}
			if count.most != 2 {
				t.Errorf("got %d claims at once, want 2", count.most)
			}
		})
	}
}
