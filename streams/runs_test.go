package streams_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// rounds is how often a shuffle tells its story, each time of another tenant.
const rounds = 12

// A shuffle tells one story of several tenants, in any order and each record twice, and holds what they show against what it says.
type shuffle struct {
	*pipeline.Pipeline
	t       *testing.T
	seed    uint64
	records []*kgo.Record
}

func newShuffle(t *testing.T) *shuffle {
	p := pipeline.New(t, pipeline.Options{Partitions: 3, MaxRecords: 7})
	p.Topics(streams.Deliveries)
	p.StartAll()
	return &shuffle{Pipeline: p, t: t, seed: rand.Uint64()}
}

// apply registers a feed.
func (s *shuffle) apply(format string, args ...any) {
	s.t.Helper()
	spec, err := feed.ParseYAML("feed.yaml", fmt.Appendf(nil, format, args...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.ApplyFeed(spec)
}

// tell adds an event to the story.
func (s *shuffle) tell(id, body string, attributes map[string]string) {
	attributes["id"] = id
	s.records = append(s.records, pipeline.Event(streams.Deliveries, id, []byte(body), attributes))
}

// wantShown publishes the story and expects what each tenant shows by it.
func (s *shuffle) wantShown(text func(*view.Document) string, want ...string) {
	s.t.Helper()
	s.Feed(rand.New(rand.NewPCG(s.seed, 0)), s.records...)
	s.SettleOffers()
	for round := range rounds {
		var got []string
		for _, o := range s.Offers(fmt.Sprint("t", round)) {
			got = append(got, text(&o))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			s.t.Errorf("seed %d, tenant t%d: got %q, want %q", s.seed, round, got, want)
		}
	}
}

// Whatever order the pages and events of runs come in, and however often, through whatever partitions and batches: a run that
// is whole is shown, and one that is not is held, or shown and flagged.
func TestS_000_51_S_004_05_PagesInAnyOrderGiveOneView(t *testing.T) {
	s := newShuffle(t)
	for round := range rounds {
		for _, policy := range []string{feed.PartialRunsHold, feed.PartialRunsPublish} {
			s.apply(`
feed: %[1]s
tenant: t%[2]d
connector: c
account: A
accepts: {topics: [deliveries], source: /%[1]s/%[2]d}
format: {kind: json, rows: ".[]"}
order: observed_at
mapping:
  version: 1
  fields: {source_record: .sku, item: {mpn: .sku}, price: .price, currency: '"EUR"', observed_at: .ts}
policy: {partial_runs: %[1]s}
`, policy, round)
			put := func(id, kind, run, page, body string) {
				attributes := map[string]string{"source": fmt.Sprintf("/%s/%d", policy, round), "type": kind, "runid": run}
				if page != "" {
					attributes["page"] = page
				}
				s.tell(id, body, attributes)
			}
			row := func(record string, second int, price string) string {
				return fmt.Sprintf(`[{"sku": "%s-%s", "price": %q, "ts": "2026-03-02T07:00:%02dZ"}]`, policy, record, price, second)
			}
			// The newest run is not whole, so the one before it is shown where the policy holds.
			for n, run := range []string{"R1", "R2", "R3"} {
				put(run+"/started", streams.RunStarted, run, "", `{"pages": 3}`)
				put(run+"/1", streams.DeliveryType, run, "1", row("A", n, fmt.Sprint(n, "1")))
				put(run+"/2", streams.DeliveryType, run, "2", row("B", n, fmt.Sprint(n, "2")))
				put(run+"/failed", streams.RunFailed, run, "", `{"page": 3, "error": "503"}`)
				if run != "R3" {
					put(run+"/3", streams.DeliveryType, run, "3", row("C", n, fmt.Sprint(n, "3")))
				}
				put(run+"/completed", streams.RunCompleted, run, "", `{"pages": 3}`)
			}
		}
	}
	s.wantShown(func(o *view.Document) string { return fmt.Sprint(o.Record, " ", o.Price, " ", o.Flags) },
		"hold-A 11 []", "hold-B 12 []", "hold-C 13 []", "publish-A 21 [partial_run]", "publish-B 22 [partial_run]", "publish-C 13 []")
}

// Whatever order catalogues, their pages and the changes beside them come in, and however often: the newest catalogue that is whole
// says what is gone, by one state of the view.
func TestS_004_21_SnapshotsInAnyOrderGiveOneView(t *testing.T) {
	s := newShuffle(t)
	for round := range rounds {
		for _, mode := range []string{feed.ModeChanges, feed.ModeSnapshot} {
			s.apply(`
feed: %[1]s
tenant: t%[2]d
connector: c
account: A
accepts: {topics: [deliveries], source: /%[1]s/%[2]d}
format: {kind: json, rows: ".[]"}
order: observed_at
mode: %[1]s
mapping:
  version: 1
  fields: {source_record: .sku, item: {mpn: .sku}, price: .price, currency: '"EUR"'}
policy: {brake: {max_rows_lost: "100%%"}}
`, mode, round)
		}
		// Each row's price is the second at which it was taken.
		put := func(mode, id string, second int, run map[string]string, skus ...string) {
			rows := make([]string, len(skus))
			for i, sku := range skus {
				rows[i] = fmt.Sprintf(`{"sku": %q, "price": "%d"}`, sku, second)
			}
			attributes := map[string]string{"source": fmt.Sprintf("/%s/%d", mode, round), "time": fmt.Sprintf("2026-03-02T07:00:%02dZ", second)}
			maps.Copy(attributes, run)
			s.tell(id, "["+strings.Join(rows, ",")+"]", attributes)
		}
		page := func(run, n string) map[string]string { return map[string]string{"runid": run, "page": n, "pages": "2"} }
		put(feed.ModeSnapshot, "S1", 10, nil, "A", "B", "C")
		put(feed.ModeSnapshot, "S2/1", 20, page("S2", "1"), "A")
		put(feed.ModeSnapshot, "S2/2", 21, page("S2", "2"), "C", "E")
		put(feed.ModeSnapshot, "S3/1", 30, page("S3", "1"), "C")
		put(feed.ModeSnapshot, "S3/2", 31, page("S3", "2"), "D")
		put(feed.ModeSnapshot, "S4/1", 40, page("S4", "1"), "B") // never whole
		put(feed.ModeChanges, "C1", 5, nil, "E", "F")
		put(feed.ModeChanges, "C2", 25, nil, "G", "D")
		put(feed.ModeChanges, "C3", 30, nil, "H")
		put(feed.ModeChanges, "C4", 35, nil, "I")
	}
	s.wantShown(func(o *view.Document) string {
		if o.Deleted {
			return o.Record + " gone"
		}
		return o.Record + " " + o.Price.String()
	}, "A gone", "B gone", "C 30", "D 31", "E gone", "F gone", "G gone", "H 30", "I 35")
	report, err := audit.Run(t.Context(), audit.Inputs{Pool: s.Pool, Cluster: s.Cluster, Archive: s.Archive, Mapper: s.Mapper})
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		var b strings.Builder
		if err := report.Write(&b); err != nil {
			t.Fatal(err)
		}
		t.Errorf("seed %d: the audit found:\n%s", s.seed, b.String())
	}
}
