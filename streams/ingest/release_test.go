package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// entries are those of a tenant, the oldest first.
func (s *scene) entries(tenant string) (list []quarantine.Entry) {
	s.t.Helper()
	err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Audit, tenant, func(tx pgx.Tx) (err error) {
		list, err = quarantine.List(s.t.Context(), tx, quarantine.Filter{Limit: 1000})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Reverse(list)
	return list
}

// entry is the one open entry of a tenant.
func (s *scene) entry(tenant string) quarantine.Entry {
	s.t.Helper()
	open := slices.DeleteFunc(s.entries(tenant), func(e quarantine.Entry) bool { return e.State != "open" })
	if len(open) != 1 {
		s.t.Fatalf("tenant %s has %d open entries, want one: %+v", tenant, len(open), open)
	}
	return open[0]
}

// decideEntries publishes a decision on entries twice under one id, and returns why it was refused.
func (s *scene) decideEntries(kind, tenant string, ids ...uuid.UUID) (refusal string) {
	s.t.Helper()
	data, err := json.Marshal(ingest.Entries{Entries: ids})
	if err != nil {
		s.t.Fatal(err)
	}
	attributes := map[string]string{"id": uuid.NewString(), streams.ExtActor: "alice", streams.ExtReason: "the supplier confirmed it"}
	refusal = s.Command(tenant, kind, data, attributes)
	if again := s.Command(tenant, kind, data, attributes); again != refusal {
		s.t.Errorf("decided again: got %q, want %q", again, refusal)
	}
	return refusal
}

// release releases an entry, and waits until its replay has an outcome and all of it is in the view.
func (s *scene) release(tenant string, id uuid.UUID) {
	s.t.Helper()
	n := ask[int](s, "SELECT count(*) FROM audit_v1.replay")
	if refusal := s.decideEntries(streams.QuarantineReleaseType, tenant, id); refusal != "" {
		s.t.Fatalf("the release is refused: %s", refusal)
	}
	s.replayed(n + 1)
}

// replayed waits for as many replays, and until what they gave is in the view.
func (s *scene) replayed(n int) {
	s.t.Helper()
	s.Until(fmt.Sprintf("%d replays", n), func(context.Context) (bool, error) {
		return ask[int](s, "SELECT count(*) FROM audit_v1.replay") >= n, nil
	})
	s.SettleOffers()
	if got := ask[int](s, "SELECT count(*) FROM audit_v1.replay"); got != n {
		s.t.Errorf("got %d replays, want %d", got, n)
	}
	if got := len(s.Committed(streams.Replays)); got != n {
		s.t.Errorf("got %d events on replays, want %d", got, n)
	}
}

// prices are what the view shows: "A 119 EUR, B 20 EUR".
func (s *scene) prices() string {
	s.t.Helper()
	s.SettleOffers()
	var list []string
	for _, o := range s.Offers("t1") {
		what := o.Record + " " + o.Price.String()
		if len(o.Flags) > 0 {
			what += fmt.Sprint(" ", o.Flags)
		}
		list = append(list, what)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (s *scene) wantPrices(want string) {
	s.t.Helper()
	if got := s.prices(); got != want {
		s.t.Errorf("the view shows %q, want %q", got, want)
	}
}

// priced are rows of version 1, such as "A 119".
func priced(rows ...string) string {
	list := make([]string, len(rows))
	for i, r := range rows {
		sku, price, _ := strings.Cut(r, " ")
		list[i] = fmt.Sprintf(`{"sku": %q, "rev": 1, "price": %q, "cur": "EUR"}`, sku, price)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// startAll runs everything with a feed.
func (s *scene) startAll(settings string) {
	s.t.Helper()
	s.StartAll()
	s.ApplyFeed(specOf(s.t, settings))
}

func TestS_000_20_S_000_21_S_000_22_nothing_changes_before_a_person_decides(t *testing.T) {
	for name, settings := range map[string]string{"versions of the source": "", "no versions": weak} {
		t.Run(name, func(t *testing.T) {
			onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
				s.startAll(settings)
				s.Feed(s.rng, delivery("D", priced("A 119", "B 20")))
				s.wantPrices("A 119, B 20")
				s.Feed(s.rng, delivery("D", priced("A 99", "B 20"))) // another price
				s.wantPrices("A 119, B 20")
				first := s.entry("t1")
				if first.Fault.Reason != offer.ReasonReplayPayloadMismatch {
					t.Fatalf("got %v", &first.Fault)
				}
				s.release("t1", first.ID)
				s.wantPrices("A 99, B 20")
				s.Feed(s.rng, delivery("D", priced("A 77"))) // another number of rows
				s.wantPrices("A 99, B 20")
				second := s.entry("t1")
				s.release("t1", second.ID)
				s.wantPrices("A 77")
				if got := s.decideEntries(streams.QuarantineReleaseType, "t1", first.ID); got != offer.ReasonSchemaInvalid {
					t.Errorf("what is released was released again: %q", got)
				}
				var ids []string
				for _, o := range s.outcomes(streams.Replays, "") {
					ids = append(ids, o.EventID+" "+o.String())
				}
				if want := []string{"D;release=1 accepted", "D;release=2 accepted"}; !slices.Equal(ids, want) {
					t.Errorf("got %q, want %q", ids, want)
				}
				s.verify()
			})
		})
	}
}

func TestARefusedDeliveryIsReleasedUnderItsOwnIDOnceItsCauseIsMended(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.startAll("mapping: {version: 1, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, price: .price, currency: .currency}}\n")
	s.Feed(s.rng, delivery("D", priced("A 119")))
	s.ingested()
	e := s.entry("t1")
	s.release("t1", e.ID) // too early: it is refused again, and the entry is the same
	if again := s.entry("t1"); again.ID != e.ID {
		t.Errorf("got entry %s, want %s", again.ID, e.ID)
	}
	s.ApplyFeed(specOf(t, "mapping: {version: 2, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, price: .price, currency: .cur}}\n"))
	s.release("t1", e.ID)
	s.wantPrices("A 119")
	if got := s.entries("t1")[0].State; got != "resolved" {
		t.Errorf("the entry is %s, want resolved", got)
	}
	s.Feed(s.rng, delivery("D", priced("A 119")))
	s.ingested()
	if got := s.tally("D"); got != "duplicate 2, schema_invalid 2" {
		t.Errorf("got %s", got)
	}
	s.verify()
}

func TestARowIsReleasedAlone(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.startAll("")
	s.Feed(s.rng, delivery("D", priced("A 119", "B 20")))
	s.wantPrices("A 119, B 20")
	s.Feed(s.rng, delivery("E", priced("B 21", "C 30", "A 99"))) // B and A are known in this version with other content
	s.wantPrices("A 119, B 20, C 30")
	var a, b quarantine.Entry
	for _, e := range s.entries("t1") {
		if e.Fault.Row == 1 {
			b = e
		} else {
			a = e
		}
	}
	s.release("t1", a.ID)
	s.wantPrices("A 99, B 20, C 30")
	s.release("t1", b.ID)
	s.wantPrices("A 99, B 21, C 30")
	var got []string
	for _, o := range s.outcomes(streams.Replays, "") {
		got = append(got, fmt.Sprintf("%s %s %d %+v", o.EventID, o, o.Rows, o.Results))
	}
	if want := []string{"E;release=1 accepted 1 {Saved:1 Duplicate:0 Old:0 AmbiguousOrder:0 Rejected:0}", "E;release=2 accepted 1 {Saved:1 Duplicate:0 Old:0 AmbiguousOrder:0 Rejected:0}"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s.verify()
}

func TestWhatIsRejectedStaysSetAside(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.startAll("")
	s.Feed(s.rng, delivery("D", priced("A 119")))
	s.ingested()
	s.Feed(s.rng, delivery("D", priced("A 99")))
	s.ingested()
	e := s.entry("t1")
	for what, refused := range map[string]bool{
		"of another tenant":   s.decideEntries(streams.QuarantineRejectType, "t2", e.ID) != "",
		"that does not exist": s.decideEntries(streams.QuarantineRejectType, "t1", uuid.New()) != "",
		"without a reason":    s.Command("t1", streams.QuarantineRejectType, fmt.Appendf(nil, `{"entries": [%q]}`, e.ID), nil) != "",
		"of no entries":       s.decideEntries(streams.QuarantineRejectType, "t1") != "",
	} {
		if !refused {
			t.Errorf("a decision %s was accepted", what)
		}
	}
	if got := s.decideEntries(streams.QuarantineRejectType, "t1", e.ID); got != "" {
		t.Fatalf("refused: %s", got)
	}
	if got := s.entries("t1")[0].State; got != "rejected" {
		t.Errorf("the entry is %s", got)
	}
	s.Feed(s.rng, delivery("D", priced("A 99"))) // another copy opens nothing
	s.ingested()
	if got := s.entries("t1"); got[0].State != "rejected" {
		t.Errorf("the entry is %s after another copy", got[0].State)
	}
	s.wantPrices("A 119")
	s.verify()
}

func TestWhatNoFeedExpectedIsTakenOnceAFeedExpectsIt(t *testing.T) {
	onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
		s.startAll("feed: other\naccepts: {topics: [deliveries], source: /other}\n")
		s.Feed(s.rng, delivery("D", priced("A 119")), delivery("E", priced("B 20")), delivery("F", `{"sku": ""}`), delivery("G", priced("C 1"), "source", "/else"))
		s.ingested()
		s.ApplyFeed(specOf(t, ""))
		s.replayed(3)
		s.wantPrices("A 119, B 20")
		var open []string
		for _, tenant := range []string{offer.SystemTenant, "t1"} {
			for _, e := range s.entries(tenant) {
				open = append(open, fmt.Sprintf("%s %s %s %s", tenant, e.EventID, e.Fault.Reason, e.State))
			}
		}
		slices.Sort(open)
		want := []string{"_system D unknown_feed resolved", "_system E unknown_feed resolved", "_system F unknown_feed resolved", "_system G unknown_feed open", "t1 F schema_invalid open"}
		if !slices.Equal(open, want) {
			t.Errorf("got %q, want %q", open, want)
		}
		s.Feed(s.rng, delivery("D", priced("A 119")))
		s.ingested()
		if got := s.tally("D"); got != "duplicate 2, unknown_feed 2" {
			t.Errorf("got %s", got)
		}
		s.verify()
	})
}

func TestTwoCorrectionsOfOneDeliveryInOneBatch(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.startAll("")
	s.Feed(s.rng, delivery("D", priced("A 1", "B 1")))
	s.ingested()
	s.Publish(delivery("D", priced("A 2", "B 2")))
	s.ingested()
	s.Publish(delivery("D", priced("B 3", "C 3")))
	s.ingested()
	var ids []uuid.UUID
	for _, e := range s.entries("t1") {
		ids = append(ids, e.ID)
	}
	if refusal := s.decideEntries(streams.QuarantineReleaseType, "t1", ids...); refusal != "" {
		t.Fatal(refusal)
	}
	s.replayed(2)
	s.wantPrices("B 3, C 3")
	s.verify()
}
