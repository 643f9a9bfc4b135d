package janitor_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// Kinds of record go one after the other, each when its feed keeps it no longer, and history, decisions and receipts stay. What
// something still needs does not go: a run whose claims are held, an entry that is open, and the evidence of both.
func TestS_000_10_S_004_19_RetentionPerKindOfRecord(t *testing.T) {
	p := pipeline.New(t, pipeline.Options{MaxRecords: 1})
	p.Topics(streams.Deliveries)
	start := func() (stop func()) {
		workers := []*pipeline.Worker{p.Start(pipeline.Ingest), p.Start(pipeline.Relay), p.Start(pipeline.Project)}
		return func() {
			p.SettleOffers()
			for _, w := range workers {
				w.Stop()
			}
		}
	}
	stop := start()
	spec, err := feed.ParseYAML("feed.yaml", []byte(acme+"retention: {runs: 1d, quarantine: 1d, artifacts: 30d}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p.ApplyFeed(spec)
	send := func(id, kind, body string, attributes ...string) {
		t.Helper()
		all := map[string]string{"id": id, "source": "/acme", "type": kind, "time": "2026-03-02T08:00:00Z"}
		for i := 0; i < len(attributes); i += 2 {
			all[attributes[i]] = attributes[i+1]
		}
		p.Feed(rand.New(rand.NewPCG(7, 11)), pipeline.Event(streams.Deliveries, "k", []byte(body), all))
	}
	send("whole/started", streams.RunStarted, `{"pages": 2}`, "runid", "whole")
	send("whole/1", streams.DeliveryType, `[{"sku": "A", "rev": 1, "qty": 1}]`, "runid", "whole", "page", "1", "pages", "2")
	send("whole/2", streams.DeliveryType, `[{"sku": "B", "rev": 1, "qty": 2}]`, "runid", "whole", "page", "2", "pages", "2")
	send("part/1", streams.DeliveryType, `[{"sku": "C", "rev": 1, "qty": 3}]`, "runid", "part", "page", "1", "pages", "2")
	send("broken", streams.DeliveryType, `[{"sku"`)
	send("plain", streams.DeliveryType, `[{"sku": "D", "rev": 1, "qty": 4}]`)
	send("plain", streams.DeliveryType, `[{"sku": "D", "rev": 1, "qty": 5}]`)
	p.SettleOffers()
	decide := func(kind string, data any) {
		t.Helper()
		body, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		if refusal := p.Command("t1", kind, body, map[string]string{streams.ExtActor: "alice", streams.ExtReason: "checked"}); refusal != "" {
			t.Fatalf("%s: refused, %s", kind, refusal)
		}
	}
	decide(streams.QuarantineRejectType, ingest.Entries{Entries: []uuid.UUID{ask[uuid.UUID](t, p, "SELECT id FROM audit_v1.quarantine WHERE reason = 'schema_invalid'")}})
	stop()
	const observations = "SELECT string_agg(o::text, ' ' ORDER BY o.id) FROM audit_v1.observation AS o"
	before, offers := ask[string](t, p, observations), fmt.Sprint(p.Offers("t1"))
	want := func(when, runs, entries string) {
		t.Helper()
		if got := ask[string](t, p, "SELECT coalesce(string_agg(DISTINCT run, ' '), '') FROM audit_v1.run"); got != runs {
			t.Errorf("%s: got runs %q, want %q", when, got, runs)
		}
		if got := ask[string](t, p, "SELECT coalesce(string_agg(reason, ' ' ORDER BY reason), '') FROM audit_v1.quarantine"); got != entries {
			t.Errorf("%s: got entries %q, want %q", when, got, entries)
		}
		if got := ask[string](t, p, observations); got != before || fmt.Sprint(p.Offers("t1")) != offers {
			t.Errorf("%s: history and the view are %s and %v, want %s and %s", when, got, p.Offers("t1"), before, offers)
		}
		holds(t, p)
	}
	now := time.Now()
	hours := func(n int) { sweep(t, p, now.Add(time.Duration(n)*time.Hour)) }
	hours(23)
	want("within a day", "part whole", "replay_payload_mismatch schema_invalid")
	hours(25)
	want("after a day", "part", "replay_payload_mismatch")
	if got := ask[string](t, p, "SELECT string_agg(concat_ws(' ', kind, feed, removed), ', ' ORDER BY kind) FROM audit_v1.pruning"); got != "quarantine acme 1, runs acme 1" {
		t.Errorf("got receipts of %q, want one of the run and one of the entry", got)
	}
	state := func(id string) string {
		t.Helper()
		var attempts []receipt.Document
		key := offer.ReplayKey{Source: offer.Source{Tenant: "t1", Connector: "c1", Account: "ACC-1"}, EventSource: "/acme", EventID: id}
		err := postgres.AsTenant(t.Context(), p.Pool, postgres.Audit, "t1", func(tx pgx.Tx) (err error) {
			attempts, err = receipt.Of(t.Context(), tx, key.ID())
			return err
		})
		if err != nil || len(attempts) == 0 || attempts[0].Artifact == nil {
			t.Fatalf("delivery %s: got %+v, %v", id, attempts, err)
		}
		return fmt.Sprintf("%s, held %v", attempts[0].Artifact.State, attempts[0].Held)
	}
	states := func(when string, want map[string]string) {
		t.Helper()
		for id, want := range want {
			if got := state(id); got != want {
				t.Errorf("%s: the payload of %s: got %s, want %s", when, id, got, want)
			}
		}
	}
	const month = 31 * 24
	hours(month)
	states("after 31 days", map[string]string{"whole/1": "expired, held false", "whole/2": "expired, held false", "part/1": "stored, held true",
		"broken": "expired, held false", "plain": "stored, held false"})
	want("after 31 days", "part", "replay_payload_mismatch")

	stop = start()
	decide(streams.RunReject, map[string]string{"feed": "acme", "run": "part"})
	decide(streams.QuarantineRejectType, ingest.Entries{Entries: []uuid.UUID{ask[uuid.UUID](t, p, "SELECT id FROM audit_v1.quarantine")}})
	stop()
	hours(month + 2)
	want("after the decisions", "", "")
	states("after the decisions", map[string]string{"part/1": "expired, held true", "plain": "expired, held false"})

	// What comes again is known, though nothing but its receipt is left; a page that is new begins its run anew.
	stop = start()
	send("whole/1", streams.DeliveryType, `[{"sku": "A", "rev": 1, "qty": 1}]`, "runid", "whole", "page", "1", "pages", "2")
	send("part/2", streams.DeliveryType, `[{"sku": "E", "rev": 1, "qty": 1}]`, "runid", "part", "page", "2", "pages", "2")
	stop()
	if got := fmt.Sprint(p.Offers("t1")); got != offers {
		t.Errorf("the view is %s, want %s: the run was rejected", got, offers)
	}
	holds(t, p)
}
