package ingest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// What goes from a topic of Apache Kafka to committed observations: single rows, of which one in ten comes twice, and pages
// of a hundred rows. Set OFFERLOG_TEST_POSTGRES to a server with fsync on; the one that the tests start has it off.
func BenchmarkIngest(b *testing.B) {
	for name, c := range map[string]struct{ deliveries, rows int }{"single rows": {50_000, 1}, "pages": {1_000, 100}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				p := pipeline.New(b, pipeline.Options{RealKafka: true, Partitions: 6})
				p.Topics(streams.Deliveries)
				w := p.StartIngest(ingest.Config{}, p.Archive)
				p.ApplyFeed(specOf(b, ""))
				w.Stop()
				var records []*kgo.Record
				for i := range c.deliveries {
					var page []string
					for j := range c.rows {
						page = append(page, row(fmt.Sprint("R", (i*c.rows+j)%(c.deliveries*c.rows/4+1)), i+1, "19.90"))
					}
					records = append(records, delivery(fmt.Sprint("D", i), "["+strings.Join(page, ",")+"]"))
					if i%10 == 0 {
						records = append(records, delivery(fmt.Sprint("D", i), "["+strings.Join(page, ",")+"]"))
					}
				}
				p.Publish(records...)
				b.StartTimer()
				began := time.Now()
				p.StartIngest(ingest.Config{}, p.Archive)
				p.Until("all deliveries to be stored", func(ctx context.Context) (bool, error) {
					var n int
					err := p.Pool.QueryRow(ctx, "SELECT coalesce(sum(l.next), 0) FROM lane AS l WHERE l.topic = $1", streams.Deliveries).Scan(&n)
					return n >= len(records), err
				})
				took := time.Since(began).Seconds()
				b.ReportMetric(float64(len(records))/took, "deliveries/s")
				b.ReportMetric(float64(len(records)*c.rows)/took, "rows/s")
			}
		})
	}
}
