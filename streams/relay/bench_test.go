package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/offerlog/offerlog/streams/rig"
)

// BenchmarkRelay publishes a backlog of two lanes to Apache Kafka.
func BenchmarkRelay(b *testing.B) {
	for name, kind := range map[string]string{"observations": "o", "changes of offers": "c"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, rig.RealKafka(b))
			w.addLanes(2)
			const each, batch = 30_000, 2000
			for range each / batch {
				for _, l := range w.lanes {
					w.store(l, strings.Repeat(kind, batch))
				}
			}
			b.ResetTimer()
			began := time.Now()
			s, stop := w.start(Config{})
			w.settle()
			elapsed := time.Since(began)
			stop()
			b.ReportMetric(2*each/elapsed.Seconds(), "events/s")
			b.ReportMetric(float64(s.Stats().Transactions), "transactions")
			b.ReportMetric(0, "ns/op")
		})
	}
}
