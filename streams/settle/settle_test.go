package settle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
	"github.com/offerlog/offerlog/streams/settle"
)

func TestMain(m *testing.M) { pipeline.Main(m) }

func TestAWaitNamesTheStepThatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		stages []pipeline.Stage
		want   string
		left   func(settle.Progress) int64
	}{
		"no ingest":    {nil, "ingest to store offsets, 3 left", func(p settle.Progress) int64 { return p.Ingest }},
		"no relay":     {[]pipeline.Stage{pipeline.Ingest}, "the relay to publish numbers, 3 left", func(p settle.Progress) int64 { return p.Relay }},
		"no projector": {[]pipeline.Stage{pipeline.Ingest, pipeline.Relay}, "the projector to pass offsets", func(p settle.Progress) int64 { return p.Project }},
	} {
		t.Run(name, func(t *testing.T) {
			p := installation(t)
			p.Publish(deliveries("A", 3)...)
			for _, s := range c.stages {
				p.Start(s)
			}
			var left settle.Progress
			p.Until("a wait that stands at this step", func(ctx context.Context) (bool, error) {
				ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				var err error
				left, err = settle.Wait(ctx, p.Pool, p.Cluster, p.Inputs)
				if !errors.Is(err, context.DeadlineExceeded) {
					return false, fmt.Errorf("got %w, want that it takes too long", err)
				}
				return strings.Contains(err.Error(), c.want), nil
			})
			if c.left(left) == 0 {
				t.Errorf("got nothing left of the step: %+v", left)
			}
		})
	}
}

func TestAHaltedPartitionIsNotWaitedFor(t *testing.T) {
	p := installation(t)
	p.PublishTo(0, deliveries("A", 1)...)
	p.StartAll()
	p.Settle()
	err := postgres.InTx(t.Context(), p.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		lanes, err := lane.List(t.Context(), tx, lane.Input, streams.Deliveries)
		if err != nil {
			return err
		}
		return lane.Stop(t.Context(), tx, lanes[0].ID, lane.LogGap, 1, 5)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.PublishTo(0, deliveries("B", 1)...)
	if _, err := settle.Wait(t.Context(), p.Pool, p.Cluster, p.Inputs); !errors.Is(err, settle.ErrHalted) || !strings.Contains(err.Error(), lane.LogGap) {
		t.Errorf("got %v, want that the partition is halted for %s", err, lane.LogGap)
	}
}

func TestMarksAtTheEndOfATopicAreNoLag(t *testing.T) {
	p := installation(t)
	p.StartAll()
	cl, err := p.Cluster.NewClient(kgo.TransactionalID("publisher"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for name, end := range map[string]kgo.TransactionEndTry{"A": kgo.TryCommit, "B": kgo.TryAbort} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), deliveries(name, 2)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	p.Settle()
	if got := len(p.Observations("t1")); got != 2 {
		t.Errorf("got %d observations, want the 2 that were committed", got)
	}
}

func TestATopicThatIsNotThere(t *testing.T) {
	p := installation(t)
	if _, err := settle.Wait(t.Context(), p.Pool, p.Cluster, []string{"elsewhere"}); !errors.Is(err, kafka.ErrNoTopic) {
		t.Errorf("got %v, want %v", err, kafka.ErrNoTopic)
	}
}

// installation has a feed, and no stage runs.
func installation(t *testing.T) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(t, pipeline.Options{Partitions: 2})
	p.Topics(streams.Deliveries)
	spec, err := feed.ParseYAML("acme-eu.yaml", []byte(`
feed: acme-eu
tenant: t1
connector: acme-eu
account: ACC-1
accepts: {topics: [deliveries], source: /acme-eu/export}
order: observed_at
mapping:
  version: 1
  fields: {source_record: .sku, item: {mpn: .sku}}
`))
	if err != nil {
		t.Fatal(err)
	}
	w := p.Start(pipeline.Ingest)
	p.ApplyFeed(spec)
	w.Stop()
	return p
}

// deliveries are n events about one record each, for partition 0.
func deliveries(name string, n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		id := fmt.Sprintf("%s-%d", name, i)
		records[i] = pipeline.Event(streams.Deliveries, "", fmt.Appendf(nil, `{"sku": %q}`, id),
			map[string]string{"id": id, "source": "/acme-eu/export", "time": "2025-03-01T08:00:00Z"})
	}
	return records
}
