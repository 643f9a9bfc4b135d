package cases

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// A gate stands before the archive, which ingest needs before each transaction: it holds a batch back until its step comes,
// and lets two workers into their transactions at the same moment.
type gate struct {
	ingest.Archive
	mu      sync.Mutex
	changed chan struct{}
	all     bool
	passed  map[int32]int64 // by partition: the first offset that may not go on
	paired  bool            // partitions 0 and 1 go on together, offset by offset
	arrived map[int32]int64
}

func newGate(a ingest.Archive) *gate {
	return &gate{Archive: a, changed: make(chan struct{}), passed: map[int32]int64{}, arrived: map[int32]int64{0: -1, 1: -1}}
}

// pass lets the record go on, and those before it. Topics share the marks: no case holds records of two topics back.
func (g *gate) pass(r *kgo.Record) {
	g.change(func() { g.passed[r.Partition] = max(g.passed[r.Partition], r.Offset+1) })
}

// open lets everything through.
func (g *gate) open() { g.change(func() { g.all = true }) }

func (g *gate) pairUp() { g.change(func() { g.paired = true }) }

func (g *gate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	close(g.changed)
	g.changed = make(chan struct{})
}

// Write implements ingest.Archive.
func (g *gate) Write(ctx context.Context, p *archive.Pack) (archive.Ref, error) {
	late := time.After(pipeline.Patience)
	g.change(func() { g.arrived[p.Partition] = max(g.arrived[p.Partition], p.Last) })
	for {
		g.mu.Lock()
		free := (g.all || g.passed[p.Partition] > p.Last) && (!g.paired || min(g.arrived[0], g.arrived[1]) >= p.Last)
		changed := g.changed
		g.mu.Unlock()
		if free {
			return g.Archive.Write(ctx, p)
		}
		select {
		case <-changed:
		case <-late:
			return archive.Ref{}, errors.New("the gate was never opened")
		}
	}
}

// pairUp starts the workers that handle events together and waits until each has a partition. One more takes that of the
// commands: with fewer members than partitions the group might give one worker both.
func (s *scene) pairUp() {
	names := map[string]bool{}
	for i := range s.c.Steps {
		if st := &s.c.Steps[i]; st.text("together_with") != "" {
			names[st.actor], names[st.text("together_with")] = true, true
		}
	}
	if len(names) == 0 {
		return
	}
	s.pair = true
	s.gate.pairUp()
	names["worker-of-the-commands"] = true
	for name := range names {
		s.worker(name, 1)
	}
	s.p.Until("each worker to have a partition", func(ctx context.Context) (bool, error) { return s.shared(ctx, len(names)) })
	for name := range names {
		s.joining[name] = len(s.workers[name].Warnings()) // of partitions that moved on before they were looked at
	}
}

// ends are where the partitions of an input topic end.
func (s *scene) ends(topic string) []int64 {
	ctx, cancel := context.WithTimeout(context.Background(), pipeline.Patience)
	defer cancel()
	t, err := kafka.Describe(ctx, s.p.Client, s.p.Cluster.Topic(topic), false)
	if err != nil {
		s.t.Fatal(err)
	}
	return t.Ends
}
