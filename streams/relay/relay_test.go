package relay

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestEachEventIsPublishedOnceInTheOrderOfItsLane(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(4)
		s, _ := w.start(Config{MaxEvents: 7}) // so that transactions end inside of ranges
		for i := range 20 {
			for _, l := range w.lanes {
				w.store(l, []string{"o", "ossso", strings.Repeat("o", 30), "cocc", "c"}[(i+l)%5])
				s.Wake()
			}
		}
		w.settle()
		w.verify()
		cursors, events := w.cursors(), 0
		for _, l := range w.lanes {
			got, want := cursors[l], int64(len(w.stored[l]))
			if got != want {
				t.Errorf("the log's cursor of lane %d: got %d, want %d", l, got, want)
			}
			events += len(w.stored[l])
		}
		if got := s.Stats(); got.Events != int64(events) || got.Transactions < int64(events/7) || got.Restarts != 0 || got.Lanes != 4 || len(got.Halted) != 0 {
			t.Errorf("got %+v, want %d events in transactions of 7 at most on 4 lanes", got, events)
		}
	})
}

func TestEventsAreCloudEventsInBinaryMode(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(1)
		l := w.lanes[0]
		w.store(l, "osc")
		w.start(Config{})
		w.settle()
		var recordedAt time.Time
		w.query(&recordedAt, "SELECT clock FROM lane WHERE id = $1", l)
		common := map[string]string{"specversion": "1.0", "source": "/offerlog", "time": recordedAt.UTC().Format(time.RFC3339Nano),
			"datacontenttype": "application/json", "lane": strconv.Itoa(l), "tenant": "acme"}
		observed, changed := key(l, 1), key(l, 3)
		want := []map[string]string{
			{"laneseq": "1", "type": "offerlog.observation.recorded.v1", "id": w.newest[l].ID().String(), "subject": "R%201-1", "partitionkey": observed.String()},
			{"laneseq": "2", "type": "offerlog.observation.sighted.v1", "subject": "R%201-1", "partitionkey": observed.String()},
			{"laneseq": "3", "type": "offerlog.offer.changed.v1", "id": eventID(l, 3).String(), "subject": "R%201-3", "partitionkey": changed.String()},
		}
		keys := []string{observed.String(), observed.String(), changed.String()}
		for _, topic := range []string{streams.Observations, streams.CurrentOffers} {
			for _, r := range slices.Concat(w.committed(topic)...) {
				item := delivery.Decode(r)[0]
				if item.Fault != nil {
					t.Fatalf("%s/%d, offset %d: %v", topic, r.Partition, r.Offset, item.Fault)
				}
				got := maps.Clone(item.Event.Attributes)
				seq, err := strconv.Atoi(got["laneseq"])
				w.must(err)
				exp := maps.Clone(common)
				maps.Copy(exp, want[seq-1])
				if exp["id"] == "" {
					exp["id"] = got["id"] // derived from observation, delivery and row
				}
				if !reflect.DeepEqual(got, exp) {
					t.Errorf("event %d: got %v, want %v", seq, got, exp)
				}
				if string(r.Key) != keys[seq-1] {
					t.Errorf("event %d: got key %q, want %q", seq, r.Key, keys[seq-1])
				}
			}
		}
	})
}

// The time of a transaction is stood for by a number of records, beyond which the broker takes no more.
func TestATransactionThatDoesNotFitIsTriedWithHalfOfItsEvents(t *testing.T) {
	addr, broker := rig.FakeKafka(t)
	w := newWorld(t, addr)
	w.addLanes(1)
	meter := &meter{most: 6}
	meter.watch(broker)
	w.store(w.lanes[0], strings.Repeat("o", 60))
	s, _ := w.start(Config{MaxEvents: 40})
	w.settle()
	w.verify()
	if got := s.Stats(); got.Restarts < 3 || len(got.Halted) != 0 {
		t.Errorf("got %+v, want a restart for each time that a transaction was halved", got)
	}
	meter.lift()
	w.store(w.lanes[0], strings.Repeat("o", 400))
	w.settle()
	w.verify()
	if got, want := meter.largest(), 40+1; got != want {
		t.Errorf("the largest transaction after the broker recovered: got %d records, want %d", got, want)
	}
}

// A meter counts the records of each transaction and refuses those beyond the most that may be.
type meter struct {
	mu              sync.Mutex
	most            int // 0: any number
	open, committed int // records of the open transaction, and of the largest committed one
}

func (m *meter) watch(broker *kfake.Cluster) {
	control := func(key kmsg.Key, f func(kmsg.Request) kmsg.Response) {
		broker.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			broker.KeepControl()
			m.mu.Lock()
			defer m.mu.Unlock()
			resp := f(r)
			return resp, nil, resp != nil
		})
	}
	control(kmsg.InitProducerID, func(kmsg.Request) kmsg.Response {
		m.open = 0
		return nil
	})
	control(kmsg.EndTxn, func(kmsg.Request) kmsg.Response {
		m.committed, m.open = max(m.committed, m.open), 0
		return nil
	})
	control(kmsg.Produce, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				var b kmsg.RecordBatch
				if err := b.ReadFrom(p.Records); err != nil {
					panic(err)
				}
				m.open += int(b.NumRecords)
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.MessageTooLarge.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		if m.most == 0 || m.open <= m.most {
			return nil
		}
		return resp
	})
}

// lift ends the refusals and forgets what was counted.
func (m *meter) lift() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most, m.committed = 0, 0
}

func (m *meter) largest() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.committed
}

// The case outbox-slow-transaction: a transaction that began first commits last.
func TestASlowTransactionOfOneLaneIsNotPassedOver(t *testing.T) {
	onBothBrokers(t, func(_ *testing.T, w *world) {
		w.addLanes(2)
		slow, quick := w.lanes[0], w.lanes[1]
		written, commit, committed := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			committed <- w.storeWhile(slow, "o", func() {
				close(written)
				<-commit
			})
		}()
		<-written
		w.store(quick, "o")
		_, stop := w.start(Config{})
		w.settle(quick)
		close(commit)
		w.must(<-committed)
		w.settle()
		w.verify()
		stop()
		w.start(Config{})
		w.store(quick, "o")
		w.settle()
		w.verify()
	})
}

func TestProcessesThatStartTogetherShareTheLanes(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(4)
		for _, l := range w.lanes {
			w.store(l, "o")
		}
		ctx, stop := context.WithCancel(t.Context())
		stages, crews := make([]*Stage, 2), make([]crew, 2)
		for i := range crews {
			stages[i] = New(w.pool, w.cluster, Config{}, slog.New(slog.DiscardHandler))
			crews[i].workers = map[int]*worker{}
		}
		for range 2 { // looks in turn
			for i := range crews {
				w.must(stages[i].tend(ctx, &crews[i]))
			}
		}
		for i := range crews {
			if got := len(crews[i].workers); got != 2 {
				t.Errorf("process %d after two looks: got %d lanes, want 2", i, got)
			}
		}
		stop()
		for i := range crews {
			crews[i].running.Wait()
		}
	})
}

func TestAnotherProcessTakesTheLanesOfOneThatEnds(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(4)
		for _, l := range w.lanes {
			w.store(l, "o")
		}
		_, stopA := w.start(Config{})
		b, _ := w.start(Config{})
		w.settle()
		stopA() // gives its lanes back at once
		for _, l := range w.lanes {
			w.store(l, "o")
		}
		w.settle()
		w.verify()
		if got := b.Stats(); got.Lanes != 4 || got.Restarts != 0 {
			t.Errorf("got %+v, want the other process on 4 lanes", got)
		}
	})
}

// The copy may be older than the log, by a crash between the two. The log is right.
func TestTheCursorOfTheLogCountsAndNotItsCopy(t *testing.T) {
	onBothBrokers(t, func(_ *testing.T, w *world) {
		w.addLanes(1)
		w.store(w.lanes[0], "ooooo")
		_, stop := w.start(Config{})
		w.settle()
		stop()
		w.asSuperuser("UPDATE relay_cursor SET published = 2")
		w.start(Config{})
		w.settle()
		w.store(w.lanes[0], "oo")
		w.settle()
		w.verify()
	})
}

// An open transaction of another lane hides what is committed behind it; taking the visible part for the whole would publish
// twice.
func TestAStartingLaneWaitsForOpenTransactionsOfOthers(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(1)
		other, err := w.cluster.NewClient(kgo.TransactionalID(w.cluster.Prefix + "another lane"))
		w.must(err)
		defer other.Close()
		w.store(w.lanes[0], "ooo")
		_, stop := w.start(Config{})
		w.settle()
		w.must(other.BeginTransaction())
		w.must(other.ProduceSync(t.Context(), CursorRecord(w.cluster, 999, 1)).FirstErr())
		w.store(w.lanes[0], "ooo")
		w.settle() // behind the open one
		stop()
		w.asSuperuser("UPDATE relay_cursor SET published = 0")
		offsets := &answers{request: kmsg.ListOffsets}
		s, _ := w.start(Config{}, kgo.WithHooks(offsets))
		w.eventually("the lane knows the ends of its log", func() bool { return offsets.n.Load() >= 2 })
		w.must(other.EndTransaction(t.Context(), kgo.TryCommit))
		w.settle()
		w.verify()
		if got := s.Stats(); got.Restarts != 0 || len(got.Halted) != 0 {
			t.Errorf("got %+v, want that the lane has only waited", got)
		}
	})
}

// answers counts the answers to one kind of request.
type answers struct {
	request kmsg.Key
	n       atomic.Int64
}

// OnBrokerRead is called by the client.
func (a *answers) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err == nil && key == int16(a.request) {
		a.n.Add(1)
	}
}

// The cursor of a lane that was idle for long stands far behind those of the others.
func TestACursorIsFoundHoweverFarItIsFromTheEnd(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(1)
		w.store(w.lanes[0], "ooo")
		_, stop := w.start(Config{})
		w.settle()
		stop()
		var others kgo.FirstErrPromise
		for n := range int64(cursorWindow + cursorWindow/2) {
			w.client.Produce(t.Context(), CursorRecord(w.cluster, 999, n), others.Promise())
		}
		w.must(w.client.Flush(t.Context()))
		w.must(others.Err())
		w.asSuperuser("UPDATE relay_cursor SET published = 0")
		w.start(Config{})
		w.settle()
		w.verify()
	})
}

func TestALaneThatCannotGoOnIsHaltedAndTheOthersGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		reason         string
		damage, repair []string // to the lane $1, of whose events 1 to 4 are published and 5 and 6 are not
	}{
		"PostgreSQL has lost commits": {outbox.OutboxBehindLog,
			[]string{"UPDATE lane SET sequence = 3 WHERE id = $1", "UPDATE relay_cursor SET published = 2 WHERE lane = $1"},
			[]string{"UPDATE lane SET sequence = 6 WHERE id = $1"}},
		"the log's cursor is older than its copy": {outbox.CursorBehind,
			[]string{"UPDATE relay_cursor SET published = 5 WHERE lane = $1"},
			[]string{"UPDATE relay_cursor SET published = 4 WHERE lane = $1"}},
		"the outbox lacks a number": {outbox.InvariantBroken,
			[]string{"UPDATE outbox SET lane = 0 WHERE lane = $1 AND first = 5"},
			[]string{"UPDATE outbox SET lane = $1 WHERE lane = 0"}},
		"the outbox lacks the last number": {outbox.InvariantBroken,
			[]string{"UPDATE outbox SET lane = 0 WHERE lane = $1 AND first = 6"},
			[]string{"UPDATE outbox SET lane = $1 WHERE lane = 0"}},
		"history lacks a number": {outbox.InvariantBroken,
			[]string{"UPDATE observation SET seq = -seq WHERE lane = $1 AND seq = 5"},
			[]string{"UPDATE observation SET seq = -seq WHERE lane = $1 AND seq = -5"}},
	} {
		t.Run(name, func(t *testing.T) {
			onBothBrokers(t, func(t *testing.T, w *world) {
				w.addLanes(2)
				bad, good := w.lanes[0], w.lanes[1]
				w.store(bad, "oooo")
				w.store(good, "oooo")
				_, stop := w.start(Config{})
				w.settle()
				stop()
				w.store(bad, "o")
				w.store(bad, "o")
				for _, sql := range c.damage {
					w.asSuperuser(sql, bad)
				}
				s, stop := w.start(Config{})
				w.eventually("the lane is halted", func() bool { return s.Stats().Halted[bad] == c.reason })
				w.store(good, "o")
				w.settle(good)
				stop()
				if n := strings.Count(w.log.String(), "level=ERROR"); n != 1 {
					t.Errorf("got %d errors in the log, want 1", n)
				}
				if got := w.cursors()[bad]; got != 4 {
					t.Errorf("the log's cursor: got %d, want it where it was, at 4", got)
				}
				s, stop = w.start(Config{})
				w.store(good, "o")
				w.settle(good)
				if got := s.Stats(); got.Halted[bad] != c.reason || got.Lanes != 1 {
					t.Errorf("got %+v, want lane %d still halted", got, bad)
				}
				for _, sql := range c.repair {
					w.asSuperuser(sql, bad)
				}
				w.asSuperuser("UPDATE relay_cursor SET halt_reason = NULL, halted_at = NULL WHERE lane = $1", bad)
				w.settle()
				stop()
				w.verify()
			})
		})
	}
}

// A log that lacks the cursor altogether is another one than was written: publishing into it would begin in the middle.
func TestALogWithoutCursorHaltsTheLane(t *testing.T) {
	onBothBrokers(t, func(_ *testing.T, w *world) {
		w.addLanes(1)
		l := w.lanes[0]
		w.store(l, "oo")
		_, stop := w.start(Config{})
		w.settle()
		stop()
		right := w.cluster
		w.cluster.Prefix += "empty."
		w.applyTopics()
		w.store(l, "o")
		s, stop := w.start(Config{})
		w.eventually("the lane is halted", func() bool { return s.Stats().Halted[l] == outbox.CursorBehind })
		stop()
		w.cluster = right
		w.asSuperuser("UPDATE relay_cursor SET halt_reason = NULL, halted_at = NULL")
		w.start(Config{})
		w.settle()
		w.verify()
	})
}
