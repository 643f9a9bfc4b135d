package streams_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/schemas"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// eventTypes are those that the map of streams names.
func eventTypes(t *testing.T) (types []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "flow.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if regexp.MustCompile(`^offerlog\.[a-z.]+\.v[0-9]+$`).MatchString(text) {
				types = append(types, text)
			}
		}
		return true
	})
	return types
}

func TestS_003_28_every_type_of_event_has_its_schema(t *testing.T) {
	types := eventTypes(t)
	if len(types) < 15 || !slices.Contains(types, streams.DeliveryType) {
		t.Fatalf("flow.go names %q: the test does not find them", types)
	}
	for _, kind := range types {
		b, err := schemas.Events.ReadFile("events/" + kind + ".json")
		if err != nil {
			t.Error(err)
			continue
		}
		var doc struct {
			ID    string `json:"$id"`
			Title string `json:"title"`
		}
		if err := json.Unmarshal(b, &doc); err != nil || doc.ID != "https://offerlog.dev/schemas/events/"+kind+".json" || doc.Title == "" {
			t.Errorf("%s: got %+v, %v, want its own id and a title", kind, doc, err)
		}
	}
}

// What offerlog publishes is what its schemas say, whatever becomes of a delivery.
func TestS_003_28_what_is_published_conforms(t *testing.T) {
	p := pipeline.New(t, pipeline.Options{})
	p.Topics(streams.Deliveries)
	p.StartAll()
	for mode, order := range map[string]string{feed.ModeChanges: "version", feed.ModeSnapshot: "observed_at"} {
		spec, err := feed.ParseYAML("feed.yaml", fmt.Appendf(nil, `
feed: %[1]s
tenant: t1
connector: %[1]s
account: %[1]s
accepts: {topics: [deliveries], source: /%[1]s}
format: {kind: json, rows: ".[]"}
order: %[2]s
mode: %[1]s
mapping:
  version: 1
  fields:
    source_record: .sku
    source_version: .rev
    item: {mpn: .sku, manufacturer: '"Acme"', condition: '"new"'}
    quantity: .qty
    quantity_basis: {unit: '"pcs"', per: '"100"'}
    price: .price
    currency: '"EUR"'
    price_breaks: '[.breaks[]? | {min_qty: .qty, price: .price}]'
    moq: .moq
    lead_time_days: .days
    observed_at: .ts
    deleted: .gone
policy: {results: all, brake: {max_rows_lost: "100%%"}}
`, mode, order))
		if err != nil {
			t.Fatal(err)
		}
		p.ApplyFeed(spec)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const full = `{"sku": "A\t1", "rev": 1, "qty": "-4.50", "price": "0.00371", "breaks": [{"qty": "10", "price": "0.003"}], "moq": "5", "days": "2", "ts": "2026-03-02T08:00:00.123456789123Z"}`
	send := func(source, id, kind, body string, more map[string]string) {
		t.Helper()
		attributes := map[string]string{"id": id, "source": source, "type": kind}
		for name, value := range more {
			attributes[name] = value
		}
		p.Feed(rng, pipeline.Event(streams.Deliveries, id, []byte(body), attributes))
		p.SettleOffers()
	}
	send("/changes", "D-1", streams.DeliveryType, "["+full+`, {"sku": "B", "rev": 1, "ts": "2026-03-02T08:00:00Z"}, {"price": "1"}]`, nil)
	send("/changes", "D-2", streams.DeliveryType, "["+full+`, {"sku": "B", "rev": 2, "gone": true, "ts": "2026-03-02T09:00:00Z"}]`, nil) // a sighting, a deletion
	send("/changes", "D-1", streams.DeliveryType, "[]", nil)                                                                             // a mismatch
	send("/nobody", "N-1", streams.DeliveryType, "[]", nil)
	send("/changes", "R/1", streams.DeliveryType, `[{"sku": "C", "rev": 1, "ts": "2026-03-02T08:00:00Z"}]`, map[string]string{"runid": "R", "page": "1"})
	send("/changes", "R/end", streams.RunCompleted, `{"pages": 1}`, map[string]string{"runid": "R"})
	send("/snapshot", "S-1", streams.DeliveryType, `[{"sku": "X"}, {"sku": "Y"}]`, map[string]string{"time": "2026-03-02T08:00:00Z"})
	send("/snapshot", "S-2", streams.DeliveryType, `[{"sku": "X"}]`, map[string]string{"time": "2026-03-03T08:00:00Z"}) // Y is gone
	body := []byte(`{"feed": "changes", "run": "R"}`)
	if refusal := p.Command("t1", streams.RunReject, body, map[string]string{streams.ExtActor: "alice", streams.ExtReason: "wrong"}); refusal != "" { // C has no claim that counts
		t.Fatal(refusal)
	}
	p.SettleOffers()
	seen := map[string]int{}
	for _, topic := range []string{streams.Observations, streams.CurrentOffers, streams.DeliveryResults, streams.Commands, streams.Deliveries} {
		for _, r := range p.Committed(topic) {
			i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == "ce_type" })
			kind := string(r.Headers[i].Value)
			seen[kind]++
			if kind == streams.DeliveryType {
				continue // the supplier's
			}
			if fault := ingest.Conforms(kind, r.Value); fault != nil {
				t.Errorf("%s in %s: %s: %v", kind, topic, r.Value, fault)
			}
		}
	}
	for _, kind := range []string{streams.ObservationRecorded, streams.ObservationSighted, streams.OfferChanged, streams.DecisionMade, streams.DeliveryResult,
		streams.FeedApplyType, streams.RunReject, streams.RunCompleted} {
		if seen[kind] == 0 {
			t.Errorf("got no event of type %s", kind)
		}
	}
}

// A command that does not conform is set aside, with the place of what is wrong.
func TestS_003_28_an_invalid_command_is_quarantined_with_its_pointer(t *testing.T) {
	p := pipeline.New(t, pipeline.Options{})
	p.Topics(streams.Deliveries)
	p.StartAll()
	for kind, c := range map[string]struct{ data, path string }{
		streams.FeedApplyType:         {`{"feed": "x", "tenant": "t1", "connector": "c", "account": "a", "accepts": {"topics": ["deliveries"], "source": "/x"}, "format": {"kind": "toml"}, "order": "observed_at", "mapping": {"version": 1, "fields": {"source_record": ".sku"}}}`, "/format/kind"},
		streams.TokenCreateType:       {`{"name": "x", "role": "king", "sha256": "` + fmt.Sprintf("%064d", 0) + `"}`, "/role"},
		streams.TokenRevokeType:       {`{"token": "x"}`, "/token"},
		streams.KeyRotateType:         {`{"tenant": 7}`, "/tenant"},
		streams.KeyShredType:          {`{"tenant": "t2"}`, "/tenant"},
		streams.RunRelease:            {`{"feed": "x", "run": ""}`, "/run"},
		streams.RunReject:             {`{"feed": "x", "run": "R", "id": 1}`, "/id"},
		streams.LaneAdoptType:         {`{"topic": "x", "partition": -1, "halt": "log_gap", "from": 0, "to": 1}`, "/partition"},
		streams.QuarantineReleaseType: {`{"entries": ["x"]}`, "/entries/0"},
		streams.QuarantineRejectType:  {`{"entries": []}`, "/entries"},
		streams.QuarantineRedriveType: {`{"entry": "00000000-0000-0000-0000-000000000001", "try": 0}`, "/try"},
		streams.CollectType:           {`{"feed": "none", "before": "2025-03-01T00:00:00Z"}`, "/feed"},
	} {
		t.Run(kind, func(t *testing.T) {
			if refusal := p.Command("t1", kind, []byte(c.data), map[string]string{"id": kind, streams.ExtActor: "alice", streams.ExtReason: "none"}); refusal != "schema_invalid" {
				t.Fatalf("got %q, want it refused as schema_invalid", refusal)
			}
			var path string
			err := postgres.InTx(t.Context(), p.Pool, postgres.Ingest, func(tx pgx.Tx) error {
				return tx.QueryRow(t.Context(), "SELECT coalesce(q.path, '') FROM quarantine AS q WHERE q.event_id = $1", kind).Scan(&path)
			})
			if err != nil || path != c.path {
				t.Errorf("got path %q, %v, want %s", path, err, c.path)
			}
		})
	}
}
