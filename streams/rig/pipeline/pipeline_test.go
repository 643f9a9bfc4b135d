package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func TestMain(m *testing.M) { pipeline.Main(m) }

func TestS_004_20_everything_comes_twice_and_in_any_order(t *testing.T) {
	for name, o := range map[string]pipeline.Options{
		"fake broker":                   {},
		"fake broker, record by record": {Partitions: 1, MaxRecords: 1},
		"Apache Kafka":                  {RealKafka: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline.New(t, o)
			p.Topics(streams.Deliveries)
			p.StartAll()
			p.ApplyFeed(acme(t))
			order, times := []int{}, map[int]int{}
			for _, r := range p.Feed(rand.New(rand.NewPCG(1, 2)), deliveries(50)...) {
				var row struct{ SKU string }
				var n int
				if err := json.Unmarshal(r.Value, &row); err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Sscanf(row.SKU, "A-%d", &n); err != nil {
					t.Fatal(err)
				}
				order = append(order, n)
				times[n]++
			}
			for n := range 50 {
				if times[n] != 2 {
					t.Errorf("delivery %d: fed %d times, want 2", n, times[n])
				}
			}
			if slices.IsSorted(order) {
				t.Error("the deliveries were fed in their order")
			}
			p.SettleOffers()
			checkRecords(t, p, 50)
		})
	}
}

func TestAKilledStageIsReplacedByAnother(t *testing.T) {
	p := pipeline.New(t, pipeline.Options{MaxRecords: 3})
	p.Topics(streams.Deliveries)
	p.StartAll()
	p.ApplyFeed(acme(t))
	rng := rand.New(rand.NewPCG(3, 4))
	records := deliveries(200)
	for _, stage := range []pipeline.Stage{pipeline.Ingest, pipeline.Relay, pipeline.Project} {
		w := p.Start(stage)
		p.Feed(rng, records...)
		w.Kill()
	}
	p.SettleOffers()
	checkRecords(t, p, 200)
}

// checkRecords looks for n offers, each with one observation and one change.
func checkRecords(t *testing.T, p *pipeline.Pipeline, n int) {
	t.Helper()
	if got := len(p.Observations("t1")); got != n {
		t.Errorf("got %d observations, want %d", got, n)
	}
	if got := len(p.Offers("t1")); got != n {
		t.Errorf("got %d offers, want %d", got, n)
	}
	if got := len(p.Committed(streams.CurrentOffers)); got != n {
		t.Errorf("got %d changes of offers, want %d", got, n)
	}
}

func acme(t *testing.T) feed.Spec {
	t.Helper()
	spec, err := feed.ParseYAML("acme-eu.yaml", []byte(`
feed: acme-eu
tenant: t1
connector: acme-eu
account: ACC-1
accepts: {topics: [deliveries], source: /acme-eu/export}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty}
`))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func deliveries(n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = pipeline.Event(streams.Deliveries, "acme-eu", fmt.Appendf(nil, `{"sku": "A-%d", "rev": 1, "qty": 6}`, i),
			map[string]string{"id": fmt.Sprint(i), "source": "/acme-eu/export", "time": "2025-03-01T08:00:00Z"})
	}
	return records
}
