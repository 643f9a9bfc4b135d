package ingest_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// begin starts ingest and applies feeds.
func (s *scene) begin(specs ...string) {
	s.t.Helper()
	s.StartIngest(ingest.Config{}, s.Archive)
	for _, spec := range specs {
		s.ApplyFeed(specOf(s.t, spec))
	}
}

func TestS_000_01_a_rerun_after_a_lost_answer_adds_nothing(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	proxy := newProxy(t, s.Pool)
	s.startIngest(ingest.Config{}, s.Archive, proxy.use)
	s.ApplyFeed(specOf(t, ""))
	proxy.loseNextCommit()
	d := delivery("D", rows(400, 1))
	s.Publish(d)
	s.ingested()
	if !proxy.lost() {
		t.Fatal("no commit was lost")
	}
	s.Publish(d)
	s.wantTally("D", "accepted 1, duplicate 1")
	if got := len(s.Observations("t1")); got != 400 {
		t.Errorf("got %d observations, want 400", got)
	}
	for _, a := range s.attempts("D") {
		if a.Attempts != 2 {
			t.Errorf("got %d attempts, want 2", a.Attempts)
		}
	}
	s.verify()
}

func TestS_000_02_a_real_change_between_two_attempts_survives(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	e1 := delivery("E1", rows(10, 10), "time", "2025-03-01T08:00:00Z")
	e2 := delivery("E2", rows(10, 12), "time", "2025-03-01T09:00:00Z")
	s.PublishTo(0, e1, e2, e1)
	s.Feed(s.rng, e1, e2)
	s.Settle()
	if got := fmt.Sprint(s.quantities("R-0")); got != "[12 10]" {
		t.Errorf("history of the row, newest first: got %s, want [12 10]", got)
	}
	for _, o := range s.Offers("t1") {
		if o.Record == "R-0" && o.Quantity.String() != "12" {
			t.Errorf("view: got %s, want 12", o.Quantity)
		}
	}
	s.wantTally("", "accepted 2, duplicate 5")
	s.verify()
}

// quantities are those that history holds of a record, the newest first.
func (s *scene) quantities(record string) (list []string) {
	s.t.Helper()
	for _, o := range s.Observations("t1") {
		if o.Record == record {
			list = append(list, o.Quantity.String())
		}
	}
	return list
}

func TestS_000_15_the_same_id_from_two_suppliers_is_two_deliveries(t *testing.T) {
	s := newScene(t, pipeline.Options{}, "deliveries-b")
	s.begin("", "feed: b\nconnector: b\naccount: ACC-2\naccepts: {topics: [deliveries-b], source: /acme-eu/export}\n")
	s.Feed(s.rng, delivery("1042", row("A", 1, "1")), on("deliveries-b", delivery("1042", row("A", 1, "2"))))
	s.wantTally("1042", "accepted 1, duplicate 1")
	if got := len(s.outcomes("deliveries-b", "1042")); got != 2 {
		t.Errorf("got %d outcomes of the other supplier, want 2", got)
	}
	if got := ask[int](s, "SELECT count(*) FROM audit_v1.receipt AS r JOIN audit_v1.outcome AS o USING (lane, \"offset\", item) WHERE o.event_id = '1042'"); got != 2 {
		t.Errorf("got %d receipts, want 2", got)
	}
	if got := len(s.Observations("t1")); got != 2 {
		t.Errorf("got %d observations, want 2", got)
	}
	s.verify()
}

func TestS_000_16_source_and_id_are_the_unit(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("", "feed: stock\naccepts: {topics: [deliveries], source: /acme-eu/stock}\n")
	s.Feed(s.rng, delivery("7", row("A", 1, "1")), delivery("7", row("B", 1, "1"), "source", "/acme-eu/stock"))
	s.wantTally("7", "accepted 2, duplicate 2")
	s.verify()
}

func TestS_000_19_a_delivery_that_comes_again_gets_the_recorded_result(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("")
	d := delivery("S-1042", rows(3, 1))
	first := s.Publish(d)[0]
	s.ingested()
	before := s.attempts("S-1042")[0]
	s.Feed(s.rng, d)
	s.wantTally("S-1042", "accepted 1, duplicate 2")
	for _, a := range s.attempts("S-1042")[1:] {
		if a.First == nil || a.First.Partition != first.Partition || a.First.Offset != first.Offset {
			t.Errorf("a repeat points at %v, want %d/%d", a.First, first.Partition, first.Offset)
		}
		if !slices.Equal(a.Observations, before.Observations) || len(a.Observations) != 3 {
			t.Errorf("a repeat got observations %v, want %v", a.Observations, before.Observations)
		}
		if a.Fingerprint != before.Fingerprint || !reflect.DeepEqual(a.Artifact, before.Artifact) {
			t.Errorf("a repeat got evidence %v, want %v", a.Artifact, before.Artifact)
		}
	}
	if got := len(s.Observations("t1")); got != 3 {
		t.Errorf("got %d observations, want 3", got)
	}
	s.verify()
}

func TestAnotherPayloadUnderOneKeyIsSetAside(t *testing.T) {
	const first = `[{"sku": "A", "rev": 1, "price": "10", "cur": "EUR"}, {"sku": "B", "rev": 1, "price": "20", "cur": "EUR"}]`
	for name, other := range map[string]string{
		"S_000_20 another price":       strings.Replace(first, `"10"`, `"11"`, 1),
		"S_000_21 another row count":   `[{"sku": "A", "rev": 1, "price": "10", "cur": "EUR"}]`,
		"a payload that is no JSON":    first[1:],
		"no payload":                   "",
		"S_000_45 the number reads on": strings.Replace(first, `"20"`, `"20.0000000000000000001"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, pipeline.Options{})
			s.begin("")
			s.PublishTo(0, delivery("S-1042", first))
			s.ingested()
			before := s.Observations("t1")
			s.Feed(s.rng, delivery("S-1042", other))
			s.Feed(s.rng, delivery("S-1042", first))
			s.wantTally("S-1042", "accepted 1, duplicate 2, replay_payload_mismatch 2")
			if got := s.Observations("t1"); !reflect.DeepEqual(got, before) {
				t.Errorf("history changed: got %v, want %v", got, before)
			}
			// Both copies are evidence; the entry is one.
			if got := ask[int](s, "SELECT count(*) FROM audit_v1.quarantine WHERE state = 'open' AND archived"); got != 1 && other != "" {
				t.Errorf("got %d open entries in quarantine, want 1", got)
			}
			for _, o := range s.outcomes(streams.Deliveries, "S-1042") {
				if o.Reason != "" && !o.Archived && other != "" {
					t.Errorf("the payload at %d/%d was set aside without evidence", o.Partition, o.Offset)
				}
			}
			s.verify()
		})
	}
}

func TestS_000_23_equal_bytes_under_two_ids_are_two_deliveries(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin(weak)
	s.Feed(s.rng, delivery("E1", rows(5, 1)), delivery("E2", rows(5, 1)))
	s.wantTally("", "accepted 2, duplicate 2")
	for i := range 5 {
		if got := len(s.quantities(fmt.Sprintf("R-%d", i))); got != 2 {
			t.Errorf("row %d: got %d observations, want 2", i, got)
		}
	}
	s.verify()
}

func TestS_000_24_a_retry_may_have_been_fetched_later(t *testing.T) {
	for name, mapping := range map[string]string{
		"the mapping reads the row":                     "",
		"the mapping reads all attributes of the event": "mapping: {version: 1, program: '{source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: ($ce | keys | length)}'}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, pipeline.Options{})
			s.begin(mapping)
			s.Feed(s.rng,
				delivery("D", row("A", 1, "1"), "recordedtime", "2025-03-01T09:00:00Z", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
				delivery("D", row("A", 1, "1"), "recordedtime", "2025-03-02T09:00:00Z"),
				delivery("D", row("A", 1, "1")))
			s.wantTally("D", "accepted 1, duplicate 5")
			s.verify()
		})
	}
}

func TestS_000_38_a_new_event_with_the_same_value_is_a_new_observation(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	s.Feed(s.rng, delivery("E1", row("A", 0, "820"), "time", "2025-03-01T08:00:00Z"), delivery("E2", row("A", 0, "820"), "time", "2025-03-01T09:00:00Z"))
	s.Settle()
	if got := s.quantities("A"); len(got) != 2 {
		t.Errorf("got observations %v, want 2 of 820", got)
	}
	for _, o := range s.Offers("t1") {
		if o.ObservedAt != "2025-03-01T09:00:00Z" {
			t.Errorf("freshness: got %s, want that of E2", o.ObservedAt)
		}
	}
	s.verify()
}

func TestS_000_42_a_page_gives_an_observation_and_its_repeat_returns_it(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	spec := specOf(t, weak)
	spec.Policy.PartialRuns = feed.PartialRunsPublish // the other pages never come
	s.ApplyFeed(spec)
	page := func(id, at, qty, price string) (string, []string) {
		return fmt.Sprintf(`{"sku": "AX-440-R2", "qty": %s, "price": %q, "cur": "EUR"}`, qty, price),
			[]string{"time", at, "runid", strings.SplitN(id, "/", 2)[0], "page", "2", "pages", "3"}
	}
	body, attributes := page("EXP-8821/2", "2025-03-01T08:00:00Z", "6", "820")
	first := delivery("EXP-8821/2", body, attributes...)
	s.Publish(first)
	s.ingested()
	original := s.attempts("EXP-8821/2")[0]
	stored := s.Observations("t1")
	s.Feed(s.rng, first)
	s.ingested()
	for _, a := range s.attempts("EXP-8821/2") {
		if !slices.Equal(a.Observations, original.Observations) || a.Attempts != 3 || a.Page != 2 || a.Run != "EXP-8821" {
			t.Errorf("attempt %+v: want observations %v, 3 attempts, page 2 of run EXP-8821", a, original.Observations)
		}
		if want := "t1/acme-eu/ACC-1/%2Facme-eu%2Fexport/EXP-8821%2F2"; a.ReplayKey != want {
			t.Errorf("replay key: got %s, want %s", a.ReplayKey, want)
		}
	}

	t.Run("S_000_45 a resend that claims 5 is set aside", func(t *testing.T) {
		body, attributes := page("EXP-8821/2", "2025-03-01T08:00:00Z", "5", "820")
		s.Feed(s.rng, delivery("EXP-8821/2", body, attributes...))
		s.wantTally("EXP-8821/2", "accepted 1, duplicate 2, replay_payload_mismatch 2")
		if got := s.Observations("t1"); !reflect.DeepEqual(got, stored) {
			t.Errorf("history: got %+v, want %+v", got, stored)
		}
		for _, a := range s.attempts("EXP-8821/2") {
			if a.Outcome == offer.Quarantined && (a.Artifact == nil || len(a.Observations) > 0) {
				t.Errorf("the mismatch at %v has evidence %v and observations %v", a.Standpoint, a.Artifact, a.Observations)
			}
		}
	})

	t.Run("S_000_43 the next export is shown, and history keeps both", func(t *testing.T) {
		body, attributes := page("EXP-8822/2", "2025-03-01T09:00:00Z", "4", "820")
		s.Feed(s.rng, delivery("EXP-8822/2", body, attributes...))
		s.Settle()
		if got := fmt.Sprint(s.quantities("AX-440-R2")); got != "[4 6]" {
			t.Errorf("history, newest first: got %s, want [4 6]", got)
		}
		if got := s.Offers("t1"); len(got) != 1 || got[0].Quantity.String() != "4" {
			t.Errorf("view: got %+v, want 4", got)
		}
	})

	t.Run("S_000_50 a late backfill joins history alone", func(t *testing.T) {
		body, attributes := page("EXP-8790/2", "2025-03-01T07:00:00Z", "9", "820")
		s.Feed(s.rng, delivery("EXP-8790/2", body, attributes...))
		s.Settle()
		if got := fmt.Sprint(s.quantities("AX-440-R2")); got != "[4 6 9]" {
			t.Errorf("history, newest first: got %s, want [4 6 9]", got)
		}
		if got := s.Offers("t1"); len(got) != 1 || got[0].Quantity.String() != "4" {
			t.Errorf("view: got %+v, want 4", got)
		}
		if got := s.attempts("EXP-8790/2")[0].Results; got != (offer.Results{Old: 1}) {
			t.Errorf("receipt: got %+v, want one old row", got)
		}
	})
	s.verify()
}

func TestS_000_47_a_lost_acknowledgement(t *testing.T) {
	onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
		proxy := newProxy(t, s.Pool)
		s.startIngest(ingest.Config{}, s.Archive, proxy.use)
		s.ApplyFeed(specOf(t, ""))
		proxy.loseNextCommit()
		d := delivery("D", row("A", 1, "1"))
		s.Publish(d)
		s.ingested()
		if !proxy.lost() {
			t.Fatal("no commit was lost")
		}
		original := s.attempts("D")
		if len(original) != 1 || original[0].Outcome != offer.Accepted || len(original[0].Observations) != 1 {
			t.Fatalf("the commit whose answer was lost left %+v, want it done once", original)
		}
		s.Feed(s.rng, d)
		s.wantTally("D", "accepted 1, duplicate 2")
		for _, a := range s.attempts("D") {
			if !slices.Equal(a.Observations, original[0].Observations) {
				t.Errorf("a retry got observations %v, want %v", a.Observations, original[0].Observations)
			}
		}
		if got := len(s.Observations("t1")); got != 1 {
			t.Errorf("got %d observations, want 1", got)
		}
		s.verify()
	})
}

func TestS_000_49_what_counts_as_a_changed_payload(t *testing.T) {
	const (
		sent      = `[{"sku": "A", "rev": 1, "qty": 10}, {"sku": "B", "rev": 1, "qty": 2}]`
		spelled   = `[ {"rev":1, "sku":"A","qty":1e1},{"sku": "\u0042", "rev": 1, "qty": 2.0}]`
		reordered = `[{"sku": "B", "rev": 1, "qty": 2}, {"sku": "A", "rev": 1, "qty": 10}]`
		changed   = `[{"sku": "A", "rev": 1, "qty": 11}, {"sku": "B", "rev": 1, "qty": 2}]`
	)
	for canonicalization, want := range map[string]map[string]string{
		"bytes": {sent: "duplicate", spelled: "replay_payload_mismatch", reordered: "replay_payload_mismatch", changed: "replay_payload_mismatch"},
		"json":  {sent: "duplicate", spelled: "duplicate", reordered: "replay_payload_mismatch", changed: "replay_payload_mismatch"},
		"rows":  {sent: "duplicate", spelled: "duplicate", reordered: "duplicate", changed: "replay_payload_mismatch"},
	} {
		t.Run(canonicalization, func(t *testing.T) {
			s := newScene(t, pipeline.Options{})
			s.begin("fingerprint: " + canonicalization + "\n")
			s.Publish(delivery("D", sent))
			s.ingested()
			before := s.Observations("t1")
			for payload, outcome := range want {
				at := s.Feed(s.rng, delivery("D", payload))
				s.ingested()
				for _, o := range s.outcomes(streams.Deliveries, "D") {
					for _, r := range at {
						if o.Partition == r.Partition && o.Offset == r.Offset && o.String() != outcome {
							t.Errorf("%s: got %v, want %s", payload, o, outcome)
						}
					}
				}
			}
			if got := s.Observations("t1"); !reflect.DeepEqual(got, before) {
				t.Errorf("history: got %+v, want %+v", got, before)
			}
			s.verify()
		})
	}
}

func TestS_000_52_the_rule_of_a_stored_key_never_changes(t *testing.T) {
	const (
		sent      = `[{"sku": "A", "rev": 1, "qty": 10}, {"sku": "B", "rev": 1, "qty": 2}]`
		reordered = `[{"sku": "B", "rev": 1, "qty": 2}, {"sku": "A", "rev": 1, "qty": 10}]`
	)
	s := newScene(t, pipeline.Options{})
	version := func(n int, fingerprint, fields string) string {
		return fmt.Sprintf("fingerprint: %s\nmapping: {version: %d, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: %s}}\n", fingerprint, n, fields)
	}
	s.begin(version(1, "rows", ".qty"))
	s.Publish(delivery("under-rows", sent))
	s.ingested()
	s.ApplyFeed(specOf(t, version(2, "bytes", ".qty")))
	s.Publish(delivery("under-bytes", sent))
	s.ingested()
	s.ApplyFeed(specOf(t, version(3, "json", `($ce.subject | length | . + .)`)))
	s.Feed(s.rng, delivery("under-rows", reordered, "subject", "x"), delivery("under-bytes", sent, "subject", "x"), delivery("under-json", sent, "subject", "x"))
	s.wantTally("under-rows", "accepted 1, duplicate 2")
	s.wantTally("under-bytes", "accepted 1, duplicate 2")
	s.wantTally("under-json", "accepted 1, duplicate 1")
	// Under version 3 the subject is part of the payload; under the versions of the stored keys it is not.
	s.Feed(s.rng, delivery("under-json", sent, "subject", "yy"), delivery("under-bytes", reordered, "subject", "x"))
	s.wantTally("under-json", "accepted 1, duplicate 1, replay_payload_mismatch 2")
	s.wantTally("under-bytes", "accepted 1, duplicate 2, replay_payload_mismatch 2")
	s.verify()
}

func TestS_003_07_to_11_revisions(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	const both = `[{"sku": "A", "rev": 1, "qty": 10}, {"sku": "B", "rev": 1, "qty": 20}]`

	s.Feed(s.rng, delivery("D1", both))
	s.Feed(s.rng, delivery("D2", both))
	s.ingested()
	t.Run("S_003_09 A and B twice are two identities", func(t *testing.T) {
		if got := len(s.Observations("t1")); got != 2 {
			t.Errorf("got %d observations, want 2", got)
		}
	})
	t.Run("S_003_07 the same revision with the same content is a repeat that is counted", func(t *testing.T) {
		results := s.attempts("D1")[0].Results
		results.Saved += s.attempts("D2")[0].Results.Saved
		results.Duplicate += s.attempts("D2")[0].Results.Duplicate
		if results != (offer.Results{Saved: 2, Duplicate: 2}) {
			t.Errorf("got %+v over both deliveries, want 2 saved and 2 duplicate", results)
		}
		if got := ask[int](s, "SELECT count(*) FROM audit_v1.claim WHERE sighting"); got != 2 {
			t.Errorf("got %d sightings, want 2", got)
		}
	})

	before := s.Observations("t1")
	s.Feed(s.rng, delivery("D3", `[{"sku": "A", "rev": 1, "qty": 10}, {"sku": "B", "rev": 1, "qty": 21}]`))
	s.ingested()
	for _, id := range []string{"S_003_08", "S_003_10"} {
		t.Run(id+" the same revision with other content is a conflict and overwrites nothing", func(t *testing.T) {
			if got := s.Observations("t1"); !reflect.DeepEqual(got, before) {
				t.Errorf("history: got %+v, want %+v", got, before)
			}
			if got := s.attempts("D3")[0].Results; got != (offer.Results{Duplicate: 1, Rejected: 1}) {
				t.Errorf("receipt: got %+v, want one row restated and one rejected", got)
			}
			if got := ask[int](s, "SELECT count(*) FROM audit_v1.quarantine WHERE reason = 'revision_conflict' AND row = 2 AND state = 'open'"); got != 1 {
				t.Errorf("got %d conflict records, want 1", got)
			}
		})
	}

	s.Feed(s.rng, delivery("D4", row("B", 2, "21")))
	s.Settle()
	t.Run("S_003_11 a new revision is a second version and is selected", func(t *testing.T) {
		if got := fmt.Sprint(s.quantities("B")); got != "[21 20]" {
			t.Errorf("history of B, newest first: got %s, want [21 20]", got)
		}
		for _, o := range s.Offers("t1") {
			if o.Record == "B" && o.Quantity.String() != "21" {
				t.Errorf("view: got %s, want 21", o.Quantity)
			}
		}
	})
	s.verify()
}

func TestWhatContradictsTooManyRowsIsSetAsideWhole(t *testing.T) {
	all := func(n, more int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"sku": "R-%d", "rev": 1, "qty": %d}`, i, i+more)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	const told = 10_000
	s := newScene(t, pipeline.Options{})
	s.begin("")
	s.Publish(delivery("D", all(told+1, 0)))
	s.ingested()
	s.Publish(delivery("other", all(told+1, 1)), delivery("some", all(3, 1)))
	s.ingested()
	s.wantTally("other", "mapping_limit 1")
	s.wantTally("some", "accepted 1")
	if got := s.attempts("some")[0].Results; got != (offer.Results{Rejected: 3}) {
		t.Errorf("a delivery beside it: got %+v, want three rows rejected", got)
	}
	if got := len(s.entries("t1")); got != 4 {
		t.Errorf("got %d entries, want one of the delivery and three of rows", got)
	}
	if got := ask[int](s, "SELECT count(*) FROM audit_v1.observation"); got != told+1 {
		t.Errorf("got %d observations, want the %d that stood", got, told+1)
	}
	s.verify()
}

func TestS_004_receipts_say_what_became_of_each_row(t *testing.T) {
	v := func(n int, qty string) string { return fmt.Sprintf(`{"sku": "A", "rev": %d, "qty": %s}`, n, qty) }
	deleted := func(n int) string { return fmt.Sprintf(`{"sku": "A", "rev": %d, "del": true}`, n) }
	for name, test := range map[string]struct {
		deliveries []string
		want       []offer.Results
		view       string // the quantity shown; "" where the offer is deleted
	}{
		"S_004_01 v7 99, v8 119, v7 again": {[]string{v(7, "99"), v(8, "119"), v(7, "99")}, []offer.Results{{Saved: 1}, {Saved: 1}, {Duplicate: 1}}, "119"},
		"S_004_01 an unseen v7 is old":     {[]string{v(8, "119"), v(7, "99")}, []offer.Results{{Saved: 1}, {Old: 1}}, "119"},
		"S_004_03 a second copy after a newer message": {[]string{v(7, "1"), v(9, "2"), v(7, "1")},
			[]offer.Results{{Saved: 1}, {Saved: 1}, {Duplicate: 1}}, "2"},
		"S_004_04 an hour again from earlier": {[]string{v(8, "8"), v(6, "6"), v(7, "7"), v(8, "8"), v(9, "9")},
			[]offer.Results{{Saved: 1}, {Old: 1}, {Old: 1}, {Duplicate: 1}, {Saved: 1}}, "9"},
		"S_004_04 a delete and an old message": {[]string{v(8, "8"), deleted(9), v(8, "8"), v(7, "7")},
			[]offer.Results{{Saved: 1}, {Saved: 1}, {Duplicate: 1}, {Old: 1}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, pipeline.Options{})
			s.StartAll()
			s.ApplyFeed(specOf(t, ""))
			for i, d := range test.deliveries { // in this order, each one twice
				r := delivery(fmt.Sprint("D", i), d)
				s.PublishTo(0, r, r)
			}
			s.Settle()
			for i, want := range test.want {
				if got := s.attempts(fmt.Sprint("D", i))[0].Results; got != want {
					t.Errorf("delivery %d: got %+v, want %+v", i, got, want)
				}
			}
			if got := s.Offers("t1"); len(got) != 1 || got[0].Quantity.String() != test.view || got[0].Deleted != (test.view == "") {
				t.Errorf("view: got %+v, want %q", got, test.view)
			}
			s.verify()
		})
	}
}

func TestS_004_02_an_old_message_is_not_silent(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("")
	s.PublishTo(0, delivery("new", row("A", 8, "1")), delivery("old", row("A", 7, "2")))
	s.ingested()
	old := s.attempts("old")[0]
	if old.Results != (offer.Results{Old: 1}) || len(old.Observations) != 1 {
		t.Fatalf("receipt: got %+v, want one old row with its observation", old)
	}
	for _, o := range s.Observations("t1") {
		if o.ObservationID == old.Observations[0] && (o.Record != "A" || o.Version != "7") {
			t.Errorf("the receipt leads to record %s version %s, want A version 7", o.Record, o.Version)
		}
	}
	if got := s.Observations("t1")[0]; got.Version != "8" {
		t.Errorf("the newest is version %s, want 8", got.Version)
	}
}

func TestS_004_08_the_counts_sum_to_the_rows(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("", "feed: other\naccepts: {topics: [deliveries], source: /other}\n")
	s.PublishTo(0, delivery("base", `[{"sku": "dup", "rev": 5, "qty": 1}, {"sku": "old", "rev": 5, "qty": 1}, {"sku": "conflict", "rev": 5, "qty": 1}, {"sku": "tie", "rev": 5, "qty": 1}]`))
	s.ingested()
	// Of the other feed, so that version 5 of tie is another revision: two sources that do not say who is right.
	s.PublishTo(0, delivery("tie", row("tie", 5, "2"), "source", "/other"))
	s.PublishTo(0, delivery("mixed", `[
		{"sku": "new", "rev": 1, "qty": 1},
		{"sku": "dup", "rev": 5, "qty": 1},
		{"sku": "old", "rev": 4, "qty": 1},
		{"sku": "conflict", "rev": 5, "qty": 2},
		{"sku": "new", "rev": 1, "qty": 1},
		{"rev": 1, "qty": 1},
		{"sku": "noversion", "qty": 1},
		7]`))
	s.ingested()
	if got := s.attempts("mixed")[0]; got.Rows != 8 || got.Results != (offer.Results{Saved: 1, Duplicate: 2, Old: 1, Rejected: 4}) {
		t.Errorf("got %d rows, %+v", got.Rows, got.Results)
	}
	for _, o := range s.outcomes(streams.Deliveries, "") {
		r := o.Results
		if sum := r.Saved + r.Duplicate + r.Old + r.AmbiguousOrder + r.Rejected; o.Outcome == "accepted" && sum != o.Rows {
			t.Errorf("%s: the counts %+v sum to %d, the delivery has %d rows", o.EventID, r, sum, o.Rows)
		}
		if o.EventID == "tie" && r != (offer.Results{AmbiguousOrder: 1}) {
			t.Errorf("tie: got %+v, want it ambiguous", r)
		}
	}
	s.verify()
}

func TestAmbiguousOrder(t *testing.T) {
	said := []string{row("A", 0, "1"), row("A", 0, "2"), row("A", 0, "1")} // of one time, by three deliveries
	for name, publish := range map[string]func(s *scene, i int){
		"in one batch":   func(*scene, int) {},
		"across batches": func(s *scene, _ int) { s.ingested() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, pipeline.Options{Partitions: 1})
			w := s.StartIngest(ingest.Config{}, s.Archive)
			s.ApplyFeed(specOf(t, weak))
			if name == "in one batch" {
				w.Stop()
			}
			for i, body := range said {
				s.Publish(delivery(fmt.Sprint("D", i), body))
				publish(s, i)
			}
			if name == "in one batch" {
				s.StartIngest(ingest.Config{}, s.Archive)
			}
			s.ingested()
			want := []offer.Results{{Saved: 1}, {AmbiguousOrder: 1}, {AmbiguousOrder: 1}} // the third agrees with the first, not with the second
			for i := range said {
				if got := s.attempts(fmt.Sprint("D", i))[0].Results; got != want[i] {
					t.Errorf("delivery %d: got %+v, want %+v", i, got, want[i])
				}
			}
			s.verify()
		})
	}
}

func TestS_004_22_neither_key_nor_version_is_guessed(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("")
	s.Feed(s.rng, delivery("no-key", `{"rev": 1, "qty": 1}`), delivery("no-version", `{"sku": "A", "qty": 1}`),
		delivery("one-good", `[{"sku": "A", "qty": 1}, {"sku": "B", "rev": 1, "qty": 1}, {"rev": 2, "qty": 1}]`))
	s.wantTally("no-key", "schema_invalid 2")
	s.wantTally("no-version", "schema_invalid 2")
	s.wantTally("one-good", "accepted 1, duplicate 1")
	if got := s.Observations("t1"); len(got) != 1 || got[0].Record != "B" {
		t.Errorf("history: got %+v, want B alone", got)
	}
	if got := s.attempts("one-good")[0]; len(got.Rejected) != 2 || got.Rejected[0].Row != 1 || got.Rejected[1].Row != 3 {
		t.Errorf("rejected: got %+v, want rows 1 and 3", got.Rejected)
	}
	s.verify()
}

func TestS_003_03_identities_survive_dump_and_restore(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	page := delivery("EXP-1/1", rows(5, 1), "runid", "EXP-1", "page", "1")
	s.Feed(s.rng, page, delivery("D2", rows(5, 2)))
	s.ingested()
	w.Stop()
	observations, receipts := s.Observations("t1"), s.receipts()

	s.Restore()
	if got := s.Observations("t1"); !reflect.DeepEqual(got, observations) {
		t.Errorf("observations: got %+v, want %+v", got, observations)
	}
	if got := s.receipts(); !reflect.DeepEqual(got, receipts) {
		t.Errorf("receipts: got %+v, want %+v", got, receipts)
	}
	// And ingest goes on there: what came before is known under its names.
	s.StartIngest(ingest.Config{}, s.Archive)
	s.Feed(s.rng, page, delivery("D3", rows(5, 1)))
	s.wantTally("EXP-1/1", "accepted 1, duplicate 3")
	if got := s.attempts("D3")[0].Observations; !slices.Equal(got, s.attempts("EXP-1/1")[0].Observations) {
		t.Errorf("a restated revision: got observations %v, want those of the first", got)
	}
	s.verify()
}

// receipts are all of tenant t1.
func (s *scene) receipts() (docs []receipt.Document) {
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

// observationIDs derives the ids of version 1 of records.
func observationIDs(records ...string) (ids []string) {
	for _, r := range records {
		key := offer.Key{Tenant: "t1", Account: "ACC-1", Record: r}
		ids = append(ids, key.ID().Observe("acme-eu/1", 1).String())
	}
	return ids
}
