package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// faults lets what passes the arrows between the stages and what they stand on be lost, at random.
type faults struct {
	mu    sync.Mutex
	rng   *rand.Rand
	over  bool
	count map[string]int // by arrow
}

// happens decides whether what passes an arrow now is lost, once in so many times.
func (f *faults) happens(arrow string, once int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.rng.IntN(once) > 0 {
		return false
	}
	f.count[arrow]++
	return true
}

// enough reports whether there were so many, on so many arrows.
func (f *faults) enough(faults, arrows int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.count {
		n += c
	}
	return n >= faults && len(f.count) >= arrows
}

// happen lets them happen from now on, or no longer.
func (f *faults) happen(now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = !now
}

// errLost is the end of a connection to the broker or the archive.
var errLost = errors.New("the answer never came")

// A forgetful archive loses questions and answers.
type forgetful struct {
	ingest.Archive
	*faults
}

// Write implements ingest.Archive.
func (a forgetful) Write(ctx context.Context, p *archive.Pack) (archive.Ref, error) {
	if a.happens("archive: a question", 40) {
		return archive.Ref{}, errLost
	}
	ref, err := a.Archive.Write(ctx, p)
	if err == nil && a.happens("archive: an answer", 40) {
		return archive.Ref{}, errLost
	}
	return ref, err
}

// requests are those of the stages that the broker is asked.
var requests = map[kmsg.Key]string{
	kmsg.Produce: "produce", kmsg.Fetch: "fetch", kmsg.OffsetCommit: "mirror", kmsg.InitProducerID: "fence", kmsg.EndTxn: "end of a transaction",
}

// onArrows runs all stages with faults on every arrow.
func (s *scene) onArrows(f *faults) {
	s.t.Helper()
	for key, name := range requests {
		s.Broker.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.Broker.KeepControl()
			if f.happens("Kafka: "+name, 25) {
				return nil, errLost, true
			}
			return nil, nil, false
		})
	}
	own := s.Pool
	defer func() { s.Pool = own }()
	for _, stage := range []pipeline.Stage{pipeline.Ingest, pipeline.Relay, pipeline.Project} {
		p := newProxy(s.t, own)
		p.breaks = func(toServer bool, data []byte) bool {
			switch {
			case toServer && bytes.Contains(data, []byte("commit\x00")):
				return f.happens(fmt.Sprintf("PostgreSQL: a commit of %s", stage), 40)
			case toServer:
				return f.happens(fmt.Sprintf("PostgreSQL: a question of %s", stage), 200)
			case bytes.Contains(data, []byte("COMMIT\x00")):
				return f.happens(fmt.Sprintf("PostgreSQL: what a commit of %s came to", stage), 40)
			}
			return f.happens(fmt.Sprintf("PostgreSQL: an answer to %s", stage), 200)
		}
		cfg := own.Config()
		p.use(cfg)
		pool, err := pgxpool.NewWithConfig(s.t.Context(), cfg)
		if err != nil {
			s.t.Fatal(err)
		}
		defer pool.Close()
		s.Pool = pool // a worker's pool has the settings of this one
		if stage == pipeline.Ingest {
			s.StartIngest(ingest.Config{}, forgetful{s.Archive, f})
		} else {
			s.Start(stage)
		}
	}
}

// TestS_000_60_S_000_61_AnythingMayBeLostOnAnyArrow loses questions and answers on every arrow while deliveries come, and holds what is
// stored then against the invariants: no key without its outcome, no observation without its evidence, nothing twice.
func TestS_000_60_S_000_61_AnythingMayBeLostOnAnyArrow(t *testing.T) { anythingMayBeLost(t, 300) }

func TestSoakS_000_61_TenThousandFaults(t *testing.T) {
	if os.Getenv("OFFERLOG_SOAK") == "" {
		t.Skip("takes many minutes: set OFFERLOG_SOAK=1")
	}
	anythingMayBeLost(t, 10_000)
}

func anythingMayBeLost(t *testing.T, faultsAtLeast int) {
	s := newScene(t, pipeline.Options{MaxRecords: 20})
	f := &faults{rng: s.rng, over: true, count: map[string]int{}}
	chance := rand.New(rand.NewPCG(s.rng.Uint64(), 1)) // of the test: that of the faults is under their lock
	s.onArrows(f)
	s.ApplyFeed(specOf(t, ""))
	f.happen(true)
	accepted := 0
	for !f.enough(faultsAtLeast, len(requests)+2+3*4) { // those to Kafka, to the archive, and of three stages to PostgreSQL
		var wave []*kgo.Record
		for range 40 {
			id := fmt.Sprint("D", accepted)
			d := delivery(id, row(fmt.Sprint("R", accepted%50), 1+accepted/50, fmt.Sprint(chance.IntN(9))))
			wave = append(wave, d)
			accepted++
		}
		s.Feed(chance, wave...)
		s.ingested()
	}
	f.happen(false)
	s.SettleOffers()
	if want := fmt.Sprintf("accepted %d, duplicate %d", accepted, accepted); s.tally("") != want {
		t.Errorf("got %s, want %s", s.tally(""), want)
	}
	if got := len(s.Observations("t1")); got != accepted {
		t.Errorf("got %d observations, want %d", got, accepted)
	}
	s.verify()
	t.Logf("%d deliveries; lost: %v", accepted, f.count)
}
