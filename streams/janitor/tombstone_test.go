package janitor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/janitor"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// asSuperuser executes what no role of offerlog may do.
func asSuperuser(t *testing.T, p *pipeline.Pipeline, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), rig.DatabaseAsSuperuser(t, p.DSN))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // it has answered
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// A deletion that is older than its feed remembers it leaves the view and the topic by an event, and nothing that comes again
// revives what was deleted: history holds the deletion for ever.
func TestS_004_19_TombstonesAreCollectedPastTheirHorizonAndStillWin(t *testing.T) {
	p := pipeline.New(t, pipeline.Options{MaxRecords: 2})
	p.Topics(streams.Deliveries)
	p.StartAll()
	spec, err := feed.ParseYAML("feed.yaml", []byte(strings.Replace(acme, "quantity: .qty", "quantity: .qty, deleted: .gone", 1)))
	if err != nil {
		t.Fatal(err)
	}
	p.ApplyFeed(spec)
	rng := rand.New(rand.NewPCG(7, 11))
	send := func(id, rows string) {
		t.Helper()
		p.Feed(rng, pipeline.Event(streams.Deliveries, id, []byte(rows), map[string]string{"id": id, "source": "/acme", "time": "2026-03-02T08:00:00Z"}))
		p.SettleOffers()
	}
	send("D-1", `[{"sku": "A", "rev": 1, "qty": 1}, {"sku": "B", "rev": 1, "qty": 2}]`)
	send("D-2", `[{"sku": "A", "rev": 2, "gone": true}, {"sku": "C", "rev": 2, "gone": true}]`)
	// last is what the topic says of a record at last, and how often it says something.
	last := func(record string) (value string, said int) {
		for _, r := range p.Committed(streams.CurrentOffers) {
			if strings.HasSuffix(string(r.Key), "/"+record) {
				said++
				if value = "null"; r.Value != nil {
					var d struct {
						Deleted  bool  `json:"deleted"`
						Revision int64 `json:"revision"`
					}
					if err := json.Unmarshal(r.Value, &d); err != nil {
						t.Fatal(err)
					}
					value = fmt.Sprint("deleted ", d.Deleted)
				}
			}
		}
		return value, said
	}
	want := func(when string, rows int, a string, said int) {
		t.Helper()
		shown, published := ask[int](t, p, "SELECT count(*)::int FROM audit_v1.current_offer"), ask[int](t, p, "SELECT count(*)::int FROM audit_v1.current_offer WHERE revision IS NOT NULL")
		if value, n := last("A"); shown != rows || published != rows || value != a || n != said {
			t.Errorf("%s: got %d rows, %d published, and of A %q as number %d, want %d rows and %q as number %d", when, shown, published, value, n, rows, a, said)
		}
		holds(t, p)
	}
	now := time.Now()
	collect := func(days int) {
		t.Helper()
		cfg := janitor.Config{Now: func() time.Time { return now.AddDate(0, 0, days) }}
		for range 2 { // two janitors, of which neither knows of the other
			asSuperuser(t, p, "DELETE FROM janitor_task")
			var sent []*kgo.Record
			cfg.Command = func(_ context.Context, r *kgo.Record) error { sent = append(sent, r); return nil }
			if err := janitor.New(p.Pool, cfg, slog.New(slog.DiscardHandler)).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.Publish(sent...)
		}
		p.SettleOffers()
	}
	want("deleted", 3, "deleted true", 2)
	collect(399)
	want("before the horizon", 3, "deleted true", 2)

	early, err := json.Marshal(ingest.Collect{Feed: "acme", Before: offer.TimeOf(now.AddDate(0, 0, -399))})
	if err != nil {
		t.Fatal(err)
	}
	if refusal := p.Command("t1", streams.CollectType, early, nil); refusal != "schema_invalid" {
		t.Errorf("asked for before the horizon: got %q, want it refused", refusal)
	}

	// The clock of the commands' lane is what a command is judged by.
	asSuperuser(t, p, "UPDATE lane SET clock = clock + interval '402 days' WHERE topic = 'commands'")
	collect(402)
	want("past the horizon", 1, "null", 3)
	if got := ask[int](t, p, "SELECT count(*)::int FROM audit_v1.eligibility WHERE kind = 'horizon'"); got != 1 {
		t.Errorf("got %d decisions of two janitors, want one", got)
	}

	// Receipts are gone too by now, so what the archive has is taken anew, and flagged.
	if refusal := p.Command("t1", streams.ReplayStartType, []byte(`{"rate": 1000}`), map[string]string{streams.ExtReason: "to be sure"}); refusal != "" {
		t.Fatalf("a replay is refused: %s", refusal)
	}
	p.Until("the replay to end", func(context.Context) (bool, error) {
		return ask[bool](t, p, "SELECT bool_and(r.state = 'sent' AND r.sent = r.answered) FROM audit_v1.replay_run AS r"), nil
	})
	p.SettleOffers()
	want("replayed from the archive", 1, "null", 3)
	if got := ask[int](t, p, "SELECT count(*)::int FROM audit_v1.outcome AS o JOIN audit_v1.position AS p USING (lane) WHERE p.topic = 'replays' AND o.outcome = 'accepted' AND o.beyond_horizon"); got != 2 {
		t.Errorf("got %d replayed deliveries that are flagged as beyond their horizon, want both", got)
	}

	// An old copy is a repeat of that by now, and an older claim comes for the first time.
	send("D-1", `[{"sku": "A", "rev": 1, "qty": 1}, {"sku": "B", "rev": 1, "qty": 2}]`)
	send("D-0", `[{"sku": "A", "rev": 0, "qty": 9}]`)
	want("old claims came again", 1, "null", 3)
	if got := ask[int](t, p, "SELECT count(*)::int FROM audit_v1.outcome WHERE event_id = 'D-1' AND beyond_horizon"); got != 1 {
		t.Errorf("got %d acceptances of D-1 beyond its horizon, want one", got)
	}

	// What is newer than the deletion is for sale again.
	send("D-3", `[{"sku": "A", "rev": 3, "qty": 4}]`)
	want("a newer claim", 2, "deleted false", 4)
}
