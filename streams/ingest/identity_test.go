package ingest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// documents returns what became of all events of the tenant.
func (s *scene) documents() (docs []receipt.Document) {
	s.t.Helper()
	err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Audit, "t1", func(tx pgx.Tx) (err error) {
		docs, err = receipt.List(s.t.Context(), tx, receipt.Filter{Limit: 1000})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return docs
}

func TestS_000_14_a_connector_names_deliveries_by_what_its_source_gives(t *testing.T) {
	connectors := []struct {
		name, identity string
		attributes     []string // of the first delivery
		other          []string // of another one
		key            string   // the last part of the first one's replay key
	}{
		{"events", "event", []string{"id", "E-1"}, []string{"id", "E-2"}, "E-1"},
		{"exports", "{fields: [exportid]}", []string{"exportid", "X-1"}, []string{"exportid", "X-2"}, "exportid=X-1"},
		{"files", "{fields: [subject, fileversion]}", []string{"subject", "stock.csv", "fileversion", "1"}, []string{"subject", "stock.csv", "fileversion", "2"}, "fileversion=1&subject=stock.csv"},
		{"snapshots", "{fields: [snapshot]}", []string{"snapshot", "t/1"}, []string{"snapshot", "t/2"}, "snapshot=t%2F1"},
	}
	s := newScene(t, pipeline.Options{})
	s.begin()
	for _, c := range connectors {
		s.ApplyFeed(specOf(t, fmt.Sprintf("feed: %[1]s\nconnector: %[1]s\naccount: %[1]s\nidentity: %[2]s\naccepts: {topics: [deliveries], source: /%[1]s}\n", c.name, c.identity)))
	}
	for i, c := range connectors {
		source := []string{"source", "/" + c.name}
		// The id says nothing where another attribute does: it is another one each time, and the same for two deliveries.
		s.Feed(s.rng, delivery("a", row("A", 1, "1"), append(source, c.attributes...)...), delivery("b", row("A", 1, "1"), append(source, c.attributes...)...),
			delivery("a", row("B", 1, "1"), append(source, c.other...)...))
		if i == 0 {
			continue
		}
		// What names the first one stands for another payload here: the same id would not.
		s.ingested()
		s.Feed(s.rng, delivery("c", row("A", 1, "2"), append(source, c.attributes...)...))
	}
	s.ingested()
	for i, c := range connectors {
		n, keys := map[string]int{}, map[string]bool{}
		for _, d := range s.documents() {
			if d.Feed != c.name {
				continue
			}
			n[d.Reason+string(d.Outcome)]++
			if keys[d.ReplayKey[strings.LastIndexByte(d.ReplayKey, '/')+1:]] = true; d.Identity != "strong" {
				t.Errorf("%s: got identity_strength %q, want strong", c.name, d.Identity)
			}
		}
		want := map[string]int{"accepted": 2, "duplicate": 4, "replay_payload_mismatchquarantined": 2}
		if i == 0 {
			want = map[string]int{"accepted": 2, "duplicate": 4}
		}
		if fmt.Sprint(n) != fmt.Sprint(want) || len(keys) != 2 || !keys[c.key] {
			t.Errorf("%s: got %v under %v, want %v, %s among two keys", c.name, n, keys, want, c.key)
		}
	}
	s.verify()
}

func TestS_003_01_a_repeated_GET_may_return_another_body(t *testing.T) {
	pulls := func(attributes ...string) []string {
		return append([]string{"endpoint", "/offers", "time", ""}, attributes...)
	}
	fields := strings.Replace(weak, ".sku,", ".sku, observed_at: .at,", 1)
	const then, now = `{"sku": "A", "qty": 1, "at": "2025-03-01T08:00:00Z"}`, `{"sku": "A", "qty": 2, "at": "2025-03-01T08:00:00Z"}`
	t.Run("S_000_26 without an id it is another delivery, and weak", func(t *testing.T) {
		s := newScene(t, pipeline.Options{})
		s.StartAll()
		s.ApplyFeed(specOf(t, fields+"identity: {fallback: [endpoint, cursor, time, payload]}\n"))
		// A connector without an id makes one up, another each time.
		s.Publish(delivery("random-1", then, pulls()...))
		s.Settle()
		s.Feed(s.rng, delivery("random-2", then, pulls()...), delivery("random-3", now, pulls()...))
		s.SettleOffers()
		s.wantTally("", "accepted 2, duplicate 3")
		for _, d := range s.documents() {
			if d.Feed != "" && d.Identity != "weak" {
				t.Errorf("%s: got identity_strength %q, want weak", d.Where(), d.Identity)
			}
		}
		for _, o := range s.Observations("t1") {
			if o.Identity != "weak" {
				t.Errorf("observation %s: got identity_strength %q, want weak", o.ObservationID, o.Identity)
			}
		}
		for _, o := range s.Offers("t1") {
			if o.Identity != "weak" {
				t.Errorf("offer %s: got identity_strength %q, want weak", o.Record, o.Identity)
			}
		}
		for _, topic := range []string{streams.Observations, streams.CurrentOffers} {
			events := s.Committed(topic)
			for _, r := range events {
				if !strings.Contains(string(r.Value), `"identity_strength":"weak"`) {
					t.Errorf("%s: %s does not say that its identity is weak", topic, r.Value)
				}
			}
			if len(events) == 0 {
				t.Errorf("%s holds nothing", topic)
			}
		}
		if got := ask[int](s, "SELECT count(*) FROM audit_v1.claim AS c WHERE c.weak_identity"); got != 2 {
			t.Errorf("got %d weak claims for the auditor, want 2", got)
		}
		s.verify()
	})
	t.Run("with a declared id it is a mismatch", func(t *testing.T) {
		s := newScene(t, pipeline.Options{})
		s.begin(fields + "identity: {fields: [exportid]}\n")
		s.Publish(delivery("random-1", then, pulls("exportid", "X")...))
		s.ingested()
		s.Feed(s.rng, delivery("random-2", then, pulls("exportid", "X")...), delivery("random-3", now, pulls("exportid", "X")...))
		s.wantTally("", "accepted 1, duplicate 2, replay_payload_mismatch 2")
		s.verify()
	})
}

func TestADeliveryWithoutWhatNamesItIsSetAside(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("identity: {fields: [exportid]}\n")
	s.Feed(s.rng, delivery("1", row("A", 1, "1")), delivery("2", row("A", 1, "1"), "exportid", "X"))
	s.wantTally("1", "not_a_cloudevent 2")
	s.wantTally("2", "accepted 1, duplicate 1")
	for _, d := range s.documents() {
		if d.EventID == "1" && (d.Detail != "ce_missing_attribute" || !strings.Contains(d.Message, "exportid") || d.ReplayKey != "") {
			t.Errorf("got %s (%s) under key %q, want the attribute's name and no key", d.Message, d.Detail, d.ReplayKey)
		}
	}
	s.verify()
}

// Two feeds of one account and source have their replay keys in common: what a delivery is does not depend on which of them
// brings it, nor on whether both copies come in one batch.
func TestTwoFeedsOfOneSourceShareKeys(t *testing.T) {
	const (
		sent      = `[{"sku": "A", "rev": 1, "qty": 10}, {"sku": "B", "rev": 1, "qty": 2}]`
		reordered = `[{"sku": "B", "rev": 1, "qty": 2}, {"sku": "A", "rev": 1, "qty": 10}]`
	)
	rule := map[string]string{"rows": "duplicate", "json": "replay_payload_mismatch"} // by fingerprint of the first
	for name, c := range map[string]struct {
		first, second string // fingerprints of the feeds
		batch         bool   // which of them is the first is the lanes' choice then
	}{
		"by rows, then as they are": {"rows", "json", false},
		"as they are, then by rows": {"json", "rows", false},
		"both in one batch":         {"rows", "json", true},
		"both, the other way round": {"json", "rows", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, pipeline.Options{Partitions: 1}, "urgent")
			w := s.StartIngest(ingest.Config{}, s.Archive)
			s.ApplyFeed(specOf(t, "fingerprint: "+c.first+"\n"))
			s.ApplyFeed(specOf(t, "feed: urgent\naccepts: {topics: [urgent], source: /acme-eu/export}\nfingerprint: "+c.second+"\n"))
			if c.batch {
				w.Stop()
			}
			s.Publish(delivery("D", sent))
			if !c.batch {
				s.ingested()
			}
			s.Publish(on("urgent", delivery("D", reordered)))
			if c.batch {
				s.StartIngest(ingest.Config{}, s.Archive)
			}
			s.ingested()
			first, second := s.outcomes(streams.Deliveries, "D")[0], s.outcomes("urgent", "D")[0]
			want := rule[c.first]
			if c.batch && second.String() == "accepted" {
				first, second, want = second, first, rule[c.second]
			}
			if first.String() != "accepted" || second.String() != want {
				t.Errorf("got %v and %v, want accepted and %s", first, second, want)
			}
			s.verify()
		})
	}
}

func TestS_000_07_an_observation_has_one_source_one_item_and_one_time(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.startAll("order: observed_at\nmapping: {version: 1, fields: {source_record: .sku, item: {mpn: .mpn}, quantity: .qty, observed_at: .ts}}\n")
	const at = `"ts": "2025-03-01T08:00:00Z"`
	s.Feed(s.rng, delivery("D", `[{"sku": "A", "mpn": "A", `+at+`}, {"mpn": "B", `+at+`}, {"sku": "C", `+at+`}, {"sku": "D", "mpn": "D"}]`, "time", ""))
	s.Feed(s.rng, delivery("no-source", `{"sku": "E", "mpn": "E", `+at+`}`, "source", ""), delivery("other", `{"sku": "F", "mpn": "F", `+at+`}`, "source", "/nobody"))
	s.Settle()
	list := s.Observations("t1")
	if len(list) != 1 || list[0].Feed != "acme-eu" || list[0].Item.MPN != "A" || list[0].ObservedAt != "2025-03-01T08:00:00Z" {
		t.Errorf("history: got %+v, want the row that has all three", list)
	}
	var rejected []string
	for _, f := range s.attempts("D")[0].Rejected {
		rejected = append(rejected, fmt.Sprintf("%d %s %s", f.Row, f.Detail, f.Path))
	}
	if want := []string{"2 source_record_missing source_record", "3 item_identity_missing item", "4 observed_at_missing observed_at"}; !slices.Equal(rejected, want) {
		t.Errorf("rejected: got %q, want %q", rejected, want)
	}
	for id, want := range map[string]string{"no-source": "ce_missing_attribute", "other": offer.ReasonUnknownFeed} {
		got := ask[string](s, "SELECT DISTINCT coalesce(o.detail, o.reason) FROM audit_v1.outcome AS o WHERE o.event_id = $1", id)
		if got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
	s.verify()
}
