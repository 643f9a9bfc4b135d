package cases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

var errLost = errors.New("the network lost it")

func (s *scene) producerBegins(st *step) {
	if s.producer == nil {
		var err error
		if s.producer, err = s.p.Cluster.NewClient(kgo.TransactionalID(st.text("id")), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(s.producer.Close)
	}
	if err := s.producer.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) producerWrites(st *step) {
	r := *s.c.events[st.int("event")]
	r.Topic = s.p.Cluster.Topic(r.Topic)
	if err := s.producer.ProduceSync(s.t.Context(), &r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	s.published[st.int("event")] = &r
}

func (s *scene) producerAborts(*step) { s.endTransaction(kgo.TryAbort) }

func (s *scene) producerCommits(*step) { s.endTransaction(kgo.TryCommit) }

func (s *scene) endTransaction(how kgo.TransactionEndTry) {
	if err := s.producer.EndTransaction(s.t.Context(), how); err != nil {
		s.t.Fatal(err)
	}
}

// A heldCommit is a commit of offsets to the broker that is on its way for longer than its sender waits.
type heldCommit struct {
	taken   atomic.Bool
	request *kmsg.OffsetCommitRequest
}

// holdCommit keeps the next commit that stands behind a record from the broker; its sender hears nothing but a broken
// connection.
func holdCommit(broker *kfake.Cluster, r *kgo.Record) *heldCommit {
	h := &heldCommit{}
	broker.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		commit := req.(*kmsg.OffsetCommitRequest)
		for _, t := range commit.Topics {
			for _, p := range t.Partitions {
				if p.Partition == r.Partition && p.Offset == r.Offset+1 {
					h.request = commit
					h.taken.Store(true)
					return nil, errLost, true
				}
			}
		}
		return nil, nil, false
	})
	return h
}

// workerRepeatsCommit waits until the worker's client has sent the commit that got no answer again.
func (s *scene) workerRepeatsCommit(st *step) {
	for _, r := range s.published {
		if r.Offset+1 == int64(st.int("next")) {
			s.mirrored(r, r.Offset+1)
			return
		}
	}
	s.t.Fatalf("step %d: no event stands before offset %d", st.n, st.int("next"))
}

// mirrored waits until the broker has the offset for the partition of a record.
func (s *scene) mirrored(r *kgo.Record, offset int64) {
	s.t.Helper()
	adm := kadm.NewClient(s.p.Client)
	s.p.Until(fmt.Sprintf("offset %d to be mirrored", offset), func(ctx context.Context) (bool, error) {
		offsets, err := adm.FetchOffsets(ctx, s.group())
		if err != nil {
			return false, err
		}
		at, ok := offsets.Lookup(r.Topic, r.Partition)
		return ok && at.At == offset, nil
	})
}

func (s *scene) group() string { return s.p.Cluster.Topic(streams.IngestGroup) }

// networkDeliversHeldCommit lets the broker have the commit at last. It may refuse it.
func (s *scene) networkDeliversHeldCommit(st *step) {
	if s.held == nil || !s.held.taken.Load() {
		s.t.Fatalf("step %d: no commit is held", st.n)
	}
	if _, err := s.held.request.RequestWith(s.t.Context(), s.p.Client); err != nil {
		s.t.Fatal(err)
	}
}

// shared reports whether the group has n members and each has one partition.
func (s *scene) shared(ctx context.Context, n int) (bool, error) {
	groups, err := kadm.NewClient(s.p.Client).DescribeConsumerGroups(ctx, s.group())
	if err != nil {
		return false, err
	}
	g := groups[s.group()]
	if errors.Is(g.Err, kerr.GroupIDNotFound) {
		return false, nil
	}
	if g.Err != nil || len(g.Members) != n {
		return false, g.Err
	}
	for _, m := range g.Members {
		n := 0
		for _, partitions := range m.Assignment {
			n += len(partitions)
		}
		if n != 1 {
			return false, nil
		}
	}
	return true, nil
}

// A heldEnd is a relay's end of transaction that waits to be carried out, and then for its answer.
type heldEnd struct{ commit, lose func() }

// relayWritesInTransaction lets a relay come to the end of its transaction, and no further.
func (s *scene) relayWritesInTransaction(st *step) {
	arrived, commit, lose := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.end = &heldEnd{sync.OnceFunc(func() { close(commit) }), sync.OnceFunc(func() { close(lose) })}
	s.t.Cleanup(func() { s.end.commit(); s.end.lose() }) // whatever comes: the relay waits for it
	var passing atomic.Bool
	broker := s.p.Broker
	broker.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if passing.Load() {
			return nil, nil, false // the same one, on its way to the broker
		}
		passing.Store(true)
		var err error
		broker.SleepControl(func() {
			close(arrived)
			<-commit
			if _, err = req.(*kmsg.EndTxnRequest).RequestWith(context.Background(), s.p.Client); err == nil {
				<-lose
			}
		})
		return nil, errors.Join(errLost, err), true
	})
	s.workers[st.actor] = s.p.Start(pipeline.Relay)
	s.p.Until("the relay to end its transaction", func(context.Context) (bool, error) {
		select {
		case <-arrived:
			return true, nil
		default:
			return false, nil
		}
	})
}

// brokerCommits lets the broker end the transaction, and waits until committed readers see it.
func (s *scene) brokerCommits(st *step) {
	if s.end == nil {
		s.t.Fatalf("step %d: no end of transaction is on its way", st.n)
	}
	s.end.commit()
	s.p.Until("the transaction to be committed", func(context.Context) (bool, error) { return len(s.p.Committed(streams.Observations)) > 0, nil })
}

func (s *scene) networkLosesAnswer(st *step) {
	if request := st.text("request"); s.end == nil || request != "EndTxn" {
		s.t.Fatalf("step %d: no answer to %s is on its way", st.n, request)
	}
	s.end.lose()
}

func (s *scene) relayIsKilled(st *step) { s.workers[st.actor].Kill() }

func (s *scene) relayStarts(st *step) { s.workers[st.actor] = s.p.Start(pipeline.Relay) }

func (s *scene) relayRestarts(st *step) {
	s.workers[st.actor].Stop()
	s.relayStarts(st)
}

// relayRunsToEnd waits until everything that is committed is published.
func (s *scene) relayRunsToEnd(st *step) {
	if s.workers[st.actor] == nil {
		s.relayStarts(st)
	}
	s.p.Until("the relay to publish all that is committed", func(ctx context.Context) (bool, error) { return s.relayed(ctx) })
}
