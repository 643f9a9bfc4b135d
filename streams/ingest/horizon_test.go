package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/janitor"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

const day = 24 * time.Hour

// tidy lets a janitor do what is due when so much time has gone by.
func (s *scene) tidy(later time.Duration) {
	s.t.Helper()
	now := func() time.Time { return time.Now().Add(later) }
	if err := janitor.New(s.Pool, janitor.Config{Now: now}, slog.New(slog.DiscardHandler)).Sweep(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func TestS_000_54_an_old_key_comes_again_after_its_horizon(t *testing.T) {
	const versioned = `{"sku": "A", "rev": %d, "qty": %d}`
	for name, c := range map[string]struct {
		settings string
		e1, e2   string // one after the other, about one record
	}{
		"a source without versions": {weak, `{"sku": "A", "qty": 6}`, `{"sku": "A", "qty": 4}`},
		"a source with versions":    {"", fmt.Sprintf(versioned, 7, 6), fmt.Sprintf(versioned, 8, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, pipeline.Options{})
			s.StartAll()
			s.ApplyFeed(specOf(t, c.settings))
			e1 := delivery("E1", c.e1, "time", "2025-03-01T08:00:00Z")
			s.Publish(e1)
			s.ingested()
			s.Feed(s.rng, delivery("E1-restated", c.e1, "time", "2025-03-01T08:00:00Z"), delivery("E2", c.e2, "time", "2025-03-01T09:00:00Z"))
			s.SettleOffers()
			before := s.Observations("t1")
			s.tidy(399 * day)
			s.Publish(e1)
			s.wantTally("E1", "accepted 1, duplicate 1")
			s.tidy(401 * day)
			s.verify()
			// The first copy is taken for new, which history knows better; the second is a repeat of that.
			s.Publish(e1)
			s.ingested()
			s.Publish(e1, delivery("E1-restated", c.e1, "time", "2025-03-01T08:00:00Z"))
			s.SettleOffers()
			s.wantTally("E1", "accepted 2, duplicate 2")
			again := s.attempts("E1")
			last := again[len(again)-2]
			if last.Outcome != offer.Accepted || fmt.Sprint(last.Flags) != "[beyond_horizon]" || last.Results != (offer.Results{Duplicate: 1}) {
				t.Errorf("got %s, flags %v, %+v, want accepted beyond its horizon with a duplicate row", last.Outcome, last.Flags, last.Results)
			}
			for _, d := range s.attempts("E1-restated") {
				if d.Outcome == offer.Accepted && fmt.Sprint(d.Flags) != "[beyond_horizon]" {
					t.Errorf("a delivery that had restated: got flags %v, want beyond_horizon", d.Flags)
				}
			}
			if now := s.Observations("t1"); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Errorf("history: got %v, want %v", now, before)
			}
			if offers := s.Offers("t1"); len(offers) != 1 || offers[0].Quantity.String() != "4" {
				t.Errorf("the view: got %+v, want quantity 4", offers)
			}
			s.verify()
		})
	}
}

// A key that is taken once more after its horizon has another payload, in which a row of the first stands elsewhere or nowhere.
func TestWhatStatesAnObservationIsThePayloadThatItWasReadFrom(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.Publish(delivery("E1", "["+row("A", 1, "1")+"]"))
	s.SettleOffers()
	stating := func(record string) *receipt.Document {
		where := "FROM audit_v1.observation AS o WHERE o.record = $1"
		lane, seq := ask[int](s, "SELECT o.lane "+where, record), ask[int64](s, "SELECT o.seq "+where, record)
		id := offer.DeliveryID(ask[uuid.UUID](s, "SELECT o.delivery "+where, record))
		var found *receipt.Document
		s.asAuditor(func(ctx context.Context, tx pgx.Tx) (err error) {
			found, err = receipt.Stating(ctx, tx, id, lane, seq)
			return err
		})
		return found
	}
	first := stating("A")
	if first == nil || first.Rows != 1 {
		t.Fatalf("got %+v, want the acceptance of one row", first)
	}
	s.tidy(401 * day)
	s.Publish(delivery("E1", "["+row("B", 1, "1")+","+row("A", 1, "1")+"]"))
	s.SettleOffers()
	s.wantTally("E1", "accepted 2")
	if got := stating("A"); got != nil {
		t.Errorf("got the acceptance of %d rows, want none: the receipt of the first has expired", got.Rows)
	}
	if got := stating("B"); got == nil || got.Rows != 2 {
		t.Errorf("got %+v, want the acceptance of two rows", got)
	}
}

func TestOnlyOldReceiptsOfFeedsExpire(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 1})
	horizon := "policy: {dedupe_horizon: %s, tombstone_horizon: 400d}\n"
	s.begin(fmt.Sprintf(horizon, "400d"), "feed: short\naccepts: {topics: [deliveries], source: /short}\n"+fmt.Sprintf(horizon, "30d"))
	var long, short []string
	for i := range 20 {
		id := fmt.Sprint("D", i)
		s.Publish(delivery(id, row("L"+id, 1, "1")), delivery(id, row("S"+id, 1, "1"), "source", "/short"))
		long, short = append(long, id), append(short, id)
	}
	s.ingested()
	receipts := func(source string) int {
		return ask[int](s, `SELECT count(*) FROM audit_v1.receipt AS r JOIN audit_v1.outcome AS o USING (lane, "offset", item) WHERE o.event_source = $1`, source)
	}
	commands := receipts("/test")
	want := func(when string, long, short int) {
		t.Helper()
		if l, c := receipts("/acme-eu/export"), receipts("/short"); l != long || c != short {
			t.Errorf("%s: got %d receipts of the one feed and %d of the other, want %d and %d", when, l, c, long, short)
		}
		s.verify()
	}
	s.tidy(29 * day)
	want("before any horizon", len(long), len(short))
	s.tidy(31 * day)
	want("after the shorter one", len(long), 0)
	// A feed that comes to forget sooner leaves nothing behind below what was looked through already.
	s.ApplyFeed(specOf(t, fmt.Sprintf(horizon, "10d")))
	s.tidy(32 * day)
	want("after one was made shorter", 0, 0)
	s.tidy(2000 * day)
	if got := receipts("/test"); got != commands+1 {
		t.Errorf("got %d receipts of commands, want %d: they are kept", got, commands+1)
	}
}

// A key that expires between the look at it and its claim is accepted again, with its evidence.
func TestAKeyThatExpiresWhileItIsClaimed(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 1})
	var held trap
	s.startIngest(ingest.Config{}, s.Archive, held.use)
	s.ApplyFeed(specOf(t, weak))
	d := delivery("D", row("A", 1, "1"))
	s.Publish(d)
	s.ingested()
	held.set(at("after INSERT INTO receipt"))
	s.Publish(d, d)
	held.wait(s)
	s.tidy(401 * day)
	held.release()
	s.wantTally("D", "accepted 2, duplicate 1")
	for _, o := range s.outcomes(streams.Deliveries, "D") {
		if o.Outcome == "accepted" && !o.Archived {
			t.Errorf("%v was accepted without evidence", o)
		}
	}
	s.verify()
}

// What comes again of a run after its receipt has gone is taken for new, and adds nothing to the run.
func TestS_000_54_a_run_comes_again_after_its_horizon(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	parts := []*kgo.Record{
		delivery("R1/started", `{"pages": 2}`, "type", streams.RunStarted, "runid", "R1", "time", "2025-03-01T08:00:00Z"),
		delivery("R1/1", `{"sku": "A", "qty": 6}`, "runid", "R1", "page", "1", "pages", "2", "time", "2025-03-01T08:00:00Z"),
		delivery("R1/2", `{"sku": "B", "qty": 6}`, "runid", "R1", "page", "2", "pages", "2", "time", "2025-03-01T08:00:00Z"),
		delivery("R1/completed", `{"pages": 2}`, "type", streams.RunCompleted, "runid", "R1", "time", "2025-03-01T08:00:00Z"),
	}
	s.Feed(s.rng, parts...)
	s.SettleOffers()
	stored := func() string {
		return ask[string](s, "SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT r::text AS x FROM audit_v1.run AS r UNION ALL SELECT e::text FROM audit_v1.run_event AS e) AS x")
	}
	before := stored()
	s.tidy(401 * day)
	s.Feed(s.rng, parts...)
	s.SettleOffers()
	for _, id := range []string{"R1/started", "R1/1", "R1/2", "R1/completed"} {
		s.wantTally(id, "accepted 2, duplicate 2")
	}
	if got := stored(); got != before {
		t.Errorf("the run is %s, want %s", got, before)
	}
	s.verify()
}
