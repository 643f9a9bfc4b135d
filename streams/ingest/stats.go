package ingest

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/offerlog/offerlog/pkg/offer"
)

// Stats is what a worker has done since it was made.
type Stats struct {
	Outcomes map[offer.Outcome]int64
	Records  int64
	Gaps     int64 // rows that skip versions of a source that numbers them without gaps
	Fenced   int64 // batches dropped because another worker had moved a lane
}

type stats struct {
	mu     sync.Mutex
	s      Stats
	fenced atomic.Int64
}

func newStats() stats { return stats{s: Stats{Outcomes: map[offer.Outcome]int64{}}} }

func (st *stats) batch(b *batch) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Records += int64(b.records)
	st.s.Gaps += int64(b.gaps)
	for o, n := range b.outcomes {
		st.s.Outcomes[o] += int64(n)
	}
}

// Stats returns a snapshot.
func (s *Stage) Stats() Stats {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	snap := s.stats.s
	snap.Outcomes = maps.Clone(snap.Outcomes)
	snap.Fenced = s.stats.fenced.Load()
	return snap
}
