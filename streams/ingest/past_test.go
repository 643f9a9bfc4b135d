package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// ticks writes a tick and returns its time.
func (s *scene) ticks() (at time.Time) {
	s.t.Helper()
	err := postgres.InTx(s.t.Context(), s.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		written, err := tick.Write(s.t.Context(), tx)
		if err != nil || !written {
			return fmt.Errorf("write a tick: %t, %w", written, err)
		}
		return tx.QueryRow(s.t.Context(), "SELECT max(at) FROM tick").Scan(&at)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// knew are the offers of t1 that were known at a time, each as record and quantity; asOf "" is whenever.
func (s *scene) knew(at time.Time, asOf string) (offers []string, closed bool) {
	s.t.Helper()
	err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		k, err := tick.At(s.t.Context(), tx, at)
		if err != nil {
			return err
		}
		var bound *offer.Time
		if asOf != "" {
			bound = new(offer.Time)
			if *bound, err = offer.ParseTime(asOf); err != nil {
				return err
			}
		}
		list, err := view.Known(s.t.Context(), tx, view.Filter{}, k, bound)
		for _, o := range list {
			offers = append(offers, o.Record+" "+o.Quantity.String())
		}
		closed = k.Closed
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return offers, closed
}

func (s *scene) wantKnown(when string, at time.Time, asOf string, want ...string) {
	s.t.Helper()
	if got, _ := s.knew(at, asOf); !slices.Equal(got, want) {
		s.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestS_003_27_a_price_that_was_corrected_is_still_what_was_known(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 3, MaxRecords: 5})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	// The supplier's day 1, told on day 1 and corrected on day 3, when day 2 is told too.
	s.Feed(s.rng, delivery("D1", `{"sku": "A", "qty": 10}`, "time", "2025-03-01T08:00:00Z"))
	s.Settle()
	day1 := s.ticks()
	s.Feed(s.rng, delivery("D3", `{"sku": "A", "qty": 13}`, "time", "2025-03-03T08:00:00Z"), delivery("D2", `{"sku": "A", "qty": 12}`, "time", "2025-03-02T08:00:00Z"),
		delivery("B", `{"sku": "B", "qty": 1}`, "time", "2025-03-02T08:00:00Z"))
	s.Settle()
	day3 := s.ticks()
	s.decides(streams.FeedSuspendType, `{"feed": "acme-eu"}`, "")
	day4 := s.ticks()
	if _, closed := s.knew(day3, ""); !closed {
		t.Error("a later tick exists, and the moment before it is not closed")
	}
	if _, closed := s.knew(day4.Add(time.Hour), ""); closed {
		t.Error("no tick is later, and the moment is closed")
	}
	s.decides(streams.FeedResumeType, `{"feed": "acme-eu"}`, "")
	s.wantKnown("day 1", day1, "", "A 10")
	s.wantKnown("between two ticks", day3.Add(-time.Microsecond), "", "A 10")
	s.wantKnown("day 3", day3, "", "A 13", "B 1")
	s.wantKnown("day 3 of day 2", day3, "2025-03-02T23:00:00Z", "A 12", "B 1")
	s.wantKnown("day 3 of day 1", day3, "2025-03-01T23:00:00Z", "A 10")
	s.wantKnown("day 3 of day 0", day3, "2025-02-28T23:00:00Z")
	s.wantKnown("while the feed was suspended", day4, "")
	s.shows("now", "A 13", "B 1")
	// What was shown is another question: every value that was published, until the next.
	s.SettleOffers()
	var shown []string
	err := postgres.AsTenant(t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		list, err := view.EverShown(t.Context(), tx, offer.Key{Tenant: "t1", Account: "ACC-1", Record: "A"}.ID())
		for i, o := range list {
			shown = append(shown, o.State+o.Quantity.String())
			if i > 0 && (list[i-1].ShownUntil != o.ShownFrom || list[i-1].Revision >= o.Revision) {
				t.Errorf("%s is shown until %s, and the next from %s", list[i-1].Quantity, list[i-1].ShownUntil, o.ShownFrom)
			}
		}
		return err
	})
	// On the way to 13 the view may have shown 12.
	if shown = slices.DeleteFunc(shown, func(v string) bool { return v == "12" }); err != nil || !slices.Equal(shown, []string{"10", "13", "none", "13"}) {
		t.Errorf("got %q and error %v, want 10, 13, none and 13 shown", shown, err)
	}
	s.verify()
}

// An answer is what a read of the past gave: every word of it, and on which tick it stands.
type answer struct {
	at   time.Time // asked about
	asOf string
	says string
}

// answers asks about a moment, whenever it was true and as of some seconds; the moment must be closed.
func (s *scene) answers(at time.Time) (list []answer) {
	s.t.Helper()
	for _, asOf := range []string{"", "2025-03-01T08:00:03Z", "2025-03-01T08:00:06Z"} {
		a := answer{at: at, asOf: asOf}
		err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) error {
			k, err := tick.At(s.t.Context(), tx, at)
			if err != nil {
				return err
			}
			if !k.Closed {
				return fmt.Errorf("%s is not closed, and a later tick exists", at)
			}
			var bound *offer.Time
			if asOf != "" {
				bound = new(offer.Time)
				if *bound, err = offer.ParseTime(asOf); err != nil {
					return err
				}
			}
			docs, err := view.Known(s.t.Context(), tx, view.Filter{IncludeDeleted: true}, k, bound)
			if err != nil {
				return err
			}
			text, err := json.Marshal(docs)
			a.says = k.At.String() + " " + string(text)
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// TestI20AClosedAnswerNeverChanges asks about each moment as soon as a later tick closes it, while deliveries and decisions still come, and
// again when all of them have: those that claim what held before, restate it, take it back or bring it back.
func TestI20AClosedAnswerNeverChanges(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 3, MaxRecords: 5})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	s.ApplyFeed(specOf(t, "feed: other\nconnector: other\naccepts: {topics: [deliveries], source: /other}\n"))
	var (
		sent    []*kgo.Record
		moments []time.Time
		closed  []answer
	)
	chance := rand.New(rand.NewPCG(s.rng.Uint64(), 1))
	for round := range 12 {
		var wave []*kgo.Record
		for i := range 12 {
			sku, second := fmt.Sprint("R", chance.IntN(4)), chance.IntN(9)
			d := delivery(fmt.Sprintf("D%d-%d", round, i), row(sku, 1+chance.IntN(4), fmt.Sprint(chance.IntN(3))), "time", fmt.Sprintf("2025-03-01T08:00:%02dZ", second))
			if chance.IntN(2) == 0 {
				for h := range d.Headers {
					if d.Headers[h].Key == "ce_source" {
						d.Headers[h].Value = []byte("/other")
					}
				}
			}
			wave = append(wave, d)
		}
		sent = append(sent, wave...)
		s.Feed(s.rng, append(wave, sent[chance.IntN(len(sent))])...)
		of := sent[chance.IntN(len(sent))]
		id := offer.ReplayKey{Source: offer.Source{Tenant: "t1", Connector: "acme-eu", Account: "ACC-1"}, EventSource: "/acme-eu/export", EventID: headerOf(of, "ce_id")}.ID()
		for _, c := range [][2]string{{streams.UndoType, fmt.Sprintf(`{"delivery": %q}`, id)}, {streams.RedoType, fmt.Sprintf(`{"delivery": %q}`, id)},
			{streams.FeedSuspendType, `{"feed": "other"}`}, {streams.FeedResumeType, `{"feed": "other"}`}} {
			if chance.IntN(2) == 0 { // those that would change nothing are refused
				s.Command("t1", c[0], []byte(c[1]), map[string]string{streams.ExtReason: "ticket 4411", streams.ExtActor: "ann"})
			}
		}
		s.Until("something to come, and a tick of it", func(ctx context.Context) (written bool, err error) {
			err = postgres.InTx(ctx, s.Pool, postgres.Ingest, func(tx pgx.Tx) error { written, err = tick.Write(ctx, tx); return err })
			return written, err
		})
		moments = append(moments, ask[time.Time](s, "SELECT max(at) FROM audit_v1.tick"))
		if round > 0 {
			closed = append(closed, s.answers(moments[round-1])...)
		}
		if round > 1 { // between two ticks the earlier one counts
			closed = append(closed, s.answers(moments[round-1].Add(-time.Microsecond))...)
		}
	}
	s.Feed(s.rng, delivery("last", row("R0", 9, "9"), "source", "/other"))
	s.SettleOffers()
	s.ticks()
	different := map[string]bool{}
	for _, a := range closed {
		different[a.says] = true
		for _, again := range s.answers(a.at) {
			if again.asOf == a.asOf && again.says != a.says {
				t.Errorf("known at %s, as of %q: got %s, before %s", a.at, a.asOf, again.says, a.says)
			}
		}
	}
	if len(different) < len(closed)/4 {
		t.Errorf("got %d different answers of %d: nothing has happened", len(different), len(closed))
	}
	s.verify()
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// What is read says when it held, when it was fetched, that nobody has verified it and, where its feed minds, that it is too old.
// To read it starts nothing, however often and however old it is.
func TestS_000_58_evidence_that_is_too_old_is_read_with_a_gap(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	spec := specOf(t, weak)
	spec.Policy.Freshness = feed.Duration(24 * time.Hour)
	s.ApplyFeed(spec)
	const fetched = "2026-03-02T09:00:00Z"
	s.Feed(s.rng, delivery("D1", `{"sku": "A", "qty": 1, "verification": "confirmed"}`, "time", "2026-03-02T08:00:00Z", "recordedtime", fetched))
	s.SettleOffers()
	ends := func() (n int64) {
		offsets, err := kadm.NewClient(s.Client).ListEndOffsets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
		return n
	}
	read := func(now string) (o view.Document) {
		f := view.Filter{}
		if now != "" {
			at, err := offer.ParseTime(now)
			if err != nil {
				t.Fatal(err)
			}
			f.Now = at.Time()
		}
		err := postgres.AsTenant(t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) error {
			list, err := view.Offers(t.Context(), tx, f)
			if err == nil && len(list) != 1 {
				err = fmt.Errorf("got %d offers, want 1", len(list))
			}
			if err == nil {
				o = list[0]
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	published := ends()
	for name, tt := range map[string]struct{ now, age string }{
		"nobody asks":           {"", ""},
		"at the limit":          {"2026-03-03T09:00:00Z", ""},
		"just beyond the limit": {"2026-03-03T09:00:00.000001Z", "24h0m0s"},
		"long after":            {"2026-04-02T09:00:01.5Z", "744h0m1s"},
	} {
		t.Run(name, func(t *testing.T) {
			gap := read(tt.now).FreshnessGap
			if (gap != nil) != (tt.age != "") || gap != nil && (gap.Age != tt.age || gap.Limit != "1d" || gap.Action == "") {
				t.Errorf("got gap %+v, want age %q", gap, tt.age)
			}
		})
	}
	t.Run("S_000_40 when it held and when it was fetched", func(t *testing.T) {
		if o := read(""); o.ObservedAt != "2026-03-02T08:00:00Z" || o.RetrievedAt != fetched || o.LastSeenAt != fetched {
			t.Errorf("got observed at %s, retrieved at %s, last seen at %s", o.ObservedAt, o.RetrievedAt, o.LastSeenAt)
		}
	})
	t.Run("S_000_44 S_000_59 what a source says of itself verifies nothing", func(t *testing.T) {
		if o := read(""); o.Verification != "unverified" {
			t.Errorf("got verification %q", o.Verification)
		}
	})
	if got := ends(); got != published {
		t.Errorf("the topics end at %d records together, before the reads at %d", got, published)
	}
	// Whoever says it again closes the gap.
	s.Feed(s.rng, delivery("D2", `{"sku": "A", "qty": 1}`, "time", "2026-03-02T08:00:00Z", "recordedtime", "2026-03-03T09:00:00Z"))
	s.Settle()
	if o := read("2026-03-03T10:00:00Z"); o.FreshnessGap != nil || o.LastSeenAt != "2026-03-03T09:00:00Z" {
		t.Errorf("got gap %+v, last seen at %s", o.FreshnessGap, o.LastSeenAt)
	}
	s.verify()
}
