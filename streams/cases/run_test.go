package cases

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// run runs the case of a folder.
func run(t *listener, dir string) {
	c, err := load(dir)
	if missing, ok := errors.AsType[*unsupportedError](err); ok {
		t.skip(missing.Error())
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Steps) > 0 {
		play(t, c)
		return
	}
	first := deliver(t, c, c.events)
	for n, order := range orders(len(c.events), len(c.want.SameForEveryOrder) > 0) {
		events := make([]*kgo.Record, len(order))
		for i, e := range order {
			events[i] = c.events[e]
		}
		again := deliverShuffled(t, c, events)
		if err := again.check(&c.want); err != nil {
			t.Fatalf("order %v: %v", order, err)
		}
		for _, name := range c.want.SameForEveryOrder {
			was, err := first.part(name)
			if err != nil {
				t.Fatal(err)
			}
			is, _ := again.part(name) // a name that is known
			if got, want := digest(is), digest(was); got != want {
				t.Fatalf("order %d, %v: %s: got %s, want %s as in the first order", n, order, name, got, want)
			}
		}
	}
}

// install makes a pipeline with the topics and feeds of a case and lets all stages run.
func install(t testing.TB, c *kase) *pipeline.Pipeline {
	p := pipeline.New(t, pipeline.Options{Partitions: 2, Log: slog.DiscardHandler})
	p.Topics(c.topics()...)
	p.StartAll()
	for _, f := range c.feeds {
		p.ApplyFeed(f)
	}
	return p
}

// deliver publishes the events in their order, in the portions that the case looks at, and checks everything.
func deliver(t testing.TB, c *kase, events []*kgo.Record) state {
	p := install(t, c)
	published := map[int]*kgo.Record{}
	publish := func(upto int) {
		from := len(published)
		for i, r := range p.Publish(events[from:upto]...) {
			published[from+i] = r
		}
		p.Settle()
	}
	for _, a := range c.want.After {
		publish(a.Events)
		if err := stateOf(p, c.tenants()).check(&expected{Current: a.Current, Tombstones: a.Tombstones}); err != nil {
			t.Fatalf("after %d events: %v", a.Events, err)
		}
	}
	publish(len(events))
	if err := checkDeliveries(p, c.want.Deliveries, published); err != nil {
		t.Fatal(err)
	}
	if err := checkAttempts(p, c.want.Attempts); err != nil {
		t.Fatal(err)
	}
	s := stateOf(p, c.tenants())
	if err := s.check(&c.want); err != nil {
		t.Fatal(err)
	}
	return s
}

// deliverShuffled publishes the events in another order, of which only the state is looked at.
func deliverShuffled(t testing.TB, c *kase, events []*kgo.Record) state {
	p := install(t, c)
	p.Publish(events...)
	p.Settle()
	return stateOf(p, c.tenants())
}

// orders are the orders of n records beside the given one: all for up to four records, else six at random.
func orders(n int, wanted bool) (list [][]int) {
	if !wanted {
		return nil
	}
	identity := make([]int, n)
	for i := range identity {
		identity[i] = i
	}
	if n > 4 {
		rng := rand.New(rand.NewPCG(uint64(n), 7)) // the same orders each time
		for range 6 {
			list = append(list, rng.Perm(n))
		}
		return list
	}
	var permute func(done, left []int)
	permute = func(done, left []int) {
		if len(left) == 0 {
			list = append(list, done)
			return
		}
		for i, v := range left {
			rest := append(append([]int{}, left[:i]...), left[i+1:]...)
			permute(append(append([]int{}, done...), v), rest)
		}
	}
	permute(nil, identity)
	return list[1:] // the first is the given one
}
