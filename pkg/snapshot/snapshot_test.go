package snapshot_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/snapshot"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

var account = decision.Account{Tenant: "t1", Name: "ACC-1"}

// A book is a transaction of the ingest role that claims and decides, and is rolled back.
type book struct {
	t   *testing.T
	tx  pgx.Tx
	seq int64
}

func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), rig.Database(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// within runs f in a transaction that leaves nothing behind.
func within(t *testing.T, pool *pgxpool.Pool, f func(b *book)) {
	t.Helper()
	done := errors.New("done")
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO lane (id, kind, topic, topic_id, partition, start, next) VALUES (1, 'input', 'deliveries', gen_random_uuid(), 0, 0, 0)")
		if err == nil {
			err = snapshot.Begin(t.Context(), tx, account)
		}
		if err != nil {
			return err
		}
		f(&book{t: t, tx: tx})
		return done
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
}

func day(n int) time.Time { return time.Date(2025, 3, n, 8, 0, 0, 0, time.UTC) }

func runID(name string) uuid.UUID { return offer.Derive("run", name) }

// claim has a run (or none) claim records as of a day: "A", "B deleted", "C v3" with a source's version.
func (b *book) claim(run string, of int, records ...string) {
	b.t.Helper()
	var list []*history.Observation
	for _, r := range records {
		name, more, _ := strings.Cut(r, " ")
		row := offer.Row{Number: 1, Record: name, ObservedAt: offer.TimeOf(day(of)), Content: offer.Content{Item: offer.Item{MPN: name}, Deleted: more == "deleted"}}
		if strings.HasPrefix(more, "v") {
			row.HasVersion, row.Version = true, 3
		}
		b.seq++
		o := history.New("f", offer.Key{Tenant: account.Tenant, Account: account.Name, Record: name}, 1, offer.DeliveryID(offer.Derive("delivery", run, fmt.Sprint(b.seq))), false, &row)
		o.Lane, o.Seq, o.RecordedAt, o.RetrievedAt = 1, b.seq, day(30), day(30)
		if run != "" {
			o.Run, o.Held = runID(run), true
		}
		list = append(list, &o)
	}
	err := history.Append(b.t.Context(), b.tx, list)
	if err == nil {
		err = snapshot.Record(b.t.Context(), b.tx, snapshot.Numbers{Lanes: []int{1}, After: []int64{b.seq - int64(len(records))}, Last: []int64{b.seq}}, []decision.Account{account})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// decision is one on a run: complete as a snapshot of a day, or rejected (0).
func (b *book) decision(run string, of int) *decision.Decision {
	b.seq++
	d := &decision.Decision{Subject: decision.Subject{Tenant: account.Tenant, Kind: decision.Run, ID: runID(run)}, Lane: 1, Seq: b.seq, Verdict: decision.Rejected, RecordedAt: day(30)}
	if of > 0 {
		d.Verdict, d.Standing, d.Account, d.Feed, d.AsOf = decision.Completed, decision.Counting, account.Name, "f", new(day(of).UnixNano())
	}
	return d
}

func (b *book) decide(run string, of int) {
	b.t.Helper()
	if err := decision.Record(b.t.Context(), b.tx, []*decision.Decision{b.decision(run, of)}); err != nil {
		b.t.Fatal(err)
	}
}

func TestTheNewestSnapshotIsTheNewestThatCounts(t *testing.T) {
	pool := database(t)
	type decided struct {
		run string
		of  int // a day; 0: rejected
	}
	for sentence, c := range map[string]struct {
		stored, coming []decided
		before, after  string
	}{
		"none":                               {nil, nil, "", ""},
		"the first":                          {nil, []decided{{"R1", 1}}, "", "R1"},
		"a newer one":                        {[]decided{{"R1", 1}}, []decided{{"R2", 2}}, "R1", "R2"},
		"an older one that comes late":       {[]decided{{"R2", 2}}, []decided{{"R1", 1}}, "R2", "R2"},
		"the newest was rejected":            {[]decided{{"R1", 1}, {"R2", 2}, {"R2", 0}}, nil, "R1", "R1"},
		"the newest is rejected now":         {[]decided{{"R1", 1}, {"R2", 2}}, []decided{{"R2", 0}}, "R2", "R1"},
		"the only one is rejected":           {[]decided{{"R1", 1}}, []decided{{"R1", 0}}, "R1", ""},
		"rejected and released in one batch": {[]decided{{"R1", 1}}, []decided{{"R1", 0}, {"R1", 1}}, "R1", "R1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			within(t, pool, func(b *book) {
				for _, d := range c.stored {
					b.decide(d.run, d.of)
				}
				var coming []*decision.Decision
				for _, d := range c.coming {
					coming = append(coming, b.decision(d.run, d.of))
				}
				before, after, err := snapshot.Newest(t.Context(), b.tx, account, coming)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range []struct {
					got  *snapshot.Snapshot
					want string
				}{{before, c.before}, {after, c.after}} {
					if (x.got == nil) != (x.want == "") || x.got != nil && (x.got.Run != runID(x.want) || x.got.Feed != "f") {
						t.Errorf("got %+v, want run %q of feed f", x.got, x.want)
					}
				}
			})
		})
	}
}

func TestASnapshotLacksWhatIsOlderAndWeakAndNotInIt(t *testing.T) {
	within(t, database(t), func(b *book) {
		b.claim("", 1, "older", "restated", "versioned v3", "gone deleted")
		b.claim("", 2, "same-instant")
		b.claim("", 3, "newer")
		b.claim("R", 2, "restated", "only-here")
		b.decide("R", 2)
		s := &snapshot.Snapshot{Run: runID("R"), AsOf: day(2).UnixNano(), Feed: "f"}
		for what, c := range map[string]struct {
			all  bool
			n    snapshot.Numbers
			want []string
		}{
			"of all":                      {true, snapshot.Numbers{}, []string{"gone", "older"}},
			"of what the batch claims":    {false, snapshot.Numbers{Lanes: []int{1}, After: []int64{0}, Last: []int64{1}}, []string{"older"}},
			"of a batch without claims":   {false, snapshot.Numbers{Lanes: []int{1}, After: []int64{4}, Last: []int64{4}}, nil},
			"of what another lane claims": {false, snapshot.Numbers{Lanes: []int{2}, After: []int64{0}, Last: []int64{9}}, nil},
		} {
			var got []string
			err := snapshot.Lacking(t.Context(), b.tx, account, s, c.all, c.n, nil, func(records []string) error { got = append(got, records...); return nil })
			if slices.Sort(got); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, %v, want %q", what, got, err, c.want)
			}
		}
	})
}

func TestTheBrakeComparesWithWhatIsForSale(t *testing.T) {
	pool := database(t)
	ten := strings.Fields("A B C D E F G H I J")
	for sentence, c := range map[string]struct {
		claims []string
		share  string
		want   bool
	}{
		"all of it":               {ten, "30%", false},
		"as much as may go":       {ten[:7], "30%", false},
		"one more":                {ten[:6], "30%", true},
		"nothing may go":          {ten[:9], "0%", true},
		"all may go":              {nil, "100%", false},
		"others instead of those": {strings.Fields("K L M N O P Q"), "30%", false}, // it counts records, not which
	} {
		t.Run(sentence, func(t *testing.T) {
			within(t, pool, func(b *book) {
				b.claim("", 1, ten...)
				b.claim("", 1, "X deleted") // which is not for sale
				b.claim("R", 2, c.claims...)
				beyond, err := snapshot.Judge(t.Context(), b.tx, account, runID("R"), true, snapshot.Limits{Lost: c.share})
				if err != nil || strings.HasPrefix(beyond, "max_rows_lost") != c.want {
					t.Errorf("got %q, %v, want it beyond the limit: %t", beyond, err, c.want)
				}
			})
		})
	}
}
