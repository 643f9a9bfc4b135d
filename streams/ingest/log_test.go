package ingest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// farAway is a time that no clock has.
var farAway = time.UnixMilli(1 << 60)

// alter sets a setting of a topic.
func (s *scene) alter(topic, name, value string) {
	s.t.Helper()
	_, err := kadm.NewClient(s.Client).AlterTopicConfigs(s.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, s.Cluster.Topic(topic))
	if err != nil {
		s.t.Fatal(err)
	}
}

// applyDirectly applies a feed as the transaction of another worker does.
func (s *scene) applyDirectly(spec feed.Spec) error {
	return postgres.InTx(s.t.Context(), s.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		_, fault, err := feed.Apply(s.t.Context(), tx, spec, offer.DeliveryID(offer.Derive("test", spec.Feed)), time.Now())
		if fault != nil {
			return fault
		}
		return err
	})
}

// halts are the halted partitions of deliveries: "0 log_gap 2-5".
func (s *scene) halts() (list []string) {
	s.t.Helper()
	err := s.inspect(s.t.Context(), func(tx pgx.Tx) error {
		rows, err := tx.Query(s.t.Context(), `SELECT format('%s %s %s-%s', h.partition, h.reason, h.from_offset, h.to_offset)
		                                        FROM audit_v1.halt AS h JOIN audit_v1.position AS p USING (lane) WHERE p.topic = $1 ORDER BY h.partition`, streams.Deliveries)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// wantHalts waits for halts.
func (s *scene) wantHalts(want ...string) {
	s.t.Helper()
	s.Until(fmt.Sprintf("the halts %v", want), func(context.Context) (bool, error) { return slices.Equal(s.halts(), want), nil })
}

// deleteRecords removes what stands before an offset of a partition of deliveries.
func (s *scene) deleteRecords(partition int32, before int64) {
	s.t.Helper()
	s.deleteRecordsOf(streams.Deliveries, partition, before)
}

func (s *scene) deleteRecordsOf(topic string, partition int32, before int64) {
	s.t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: s.Cluster.Topic(topic), Partition: partition, At: before})
	resp, err := kadm.NewClient(s.Client).DeleteRecords(s.t.Context(), offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func numbered(prefix string, n int) []*kgo.Record {
	list := make([]*kgo.Record, n)
	for i := range list {
		list[i] = delivery(fmt.Sprint(prefix, i), row(fmt.Sprint(prefix, i), 1, "1"))
	}
	return list
}

func TestALogThatLostRecordsHaltsItsPartitionAlone(t *testing.T) {
	onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
		w := s.StartIngest(ingest.Config{}, s.Archive)
		s.ApplyFeed(specOf(t, ""))
		for partition := range int32(3) {
			s.PublishTo(partition, numbered(fmt.Sprint("a", partition, "-"), 2)...)
		}
		s.ingested()
		w.Stop()
		for partition := range int32(3) {
			s.PublishTo(partition, numbered(fmt.Sprint("b", partition, "-"), 4)...)
		}
		s.deleteRecords(1, 5)
		s.StartIngest(ingest.Config{}, s.Archive)
		s.ingested(partition{streams.Deliveries, 1})
		s.wantHalts("1 log_gap 2-5")
		s.wantTallyBut(1, "accepted 14")
		// It stays so, and the others go on.
		s.PublishTo(1, numbered("c1-", 1)...)
		s.PublishTo(2, numbered("c2-", 1)...)
		s.ingested(partition{streams.Deliveries, 1})
		s.wantTallyBut(1, "accepted 15")
	})
}

func (s *scene) wantTallyBut(halted int32, want string) {
	s.t.Helper()
	s.ingested(partition{streams.Deliveries, halted})
	if got := s.tally(""); got != want {
		s.t.Errorf("got %s, want %s", got, want)
	}
}

func TestALogThatLosesRecordsWhileItIsReadHaltsItsPartitionAlone(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	p := &trap{}
	s.startIngest(ingest.Config{}, s.Archive, p.use)
	s.ApplyFeed(specOf(t, ""))
	s.PublishTo(1, numbered("a", 2)...)
	s.ingested()
	p.set(at(beforeLocksLanes))
	s.PublishTo(1, numbered("b", 1)...) // the client has it in hand; then the rest of the log goes
	p.wait(s)
	s.PublishTo(1, numbered("c", 9)...)
	s.PublishTo(0, numbered("d", 1)...)
	s.deleteRecords(1, 10)
	p.conn.PgConn().Conn().Close() //nolint:errcheck // it is cut: the batch is read again, and is not there
	p.release()
	s.wantHalts("1 log_gap 2-10")
	s.PublishTo(0, numbered("e", 3)...)
	s.ingested(partition{streams.Deliveries, 1})
	s.wantTallyBut(1, "accepted 6")
}

// Who joins looks at every partition of the topic while their workers go on storing.
func TestAPartitionThatMovesWhileAnotherWorkerJoinsIsNotHalted(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	stored := func() int64 {
		return ask[int64](s, "SELECT sum(next)::bigint FROM audit_v1.position WHERE topic = $1", streams.Deliveries)
	}
	before := stored()
	var looked atomic.Bool // at the bounds of deliveries
	s.Broker.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.Broker.KeepControl()
		for _, topic := range req.(*kmsg.ListOffsetsRequest).Topics {
			looked.Store(looked.Load() || topic.Topic == streams.Deliveries)
		}
		return nil, nil, false
	})
	joins := &trap{}
	joins.set(func(point string) bool {
		return strings.HasPrefix(point, "before SELECT l.id, l.kind") && looked.Load()
	})
	s.startIngest(ingest.Config{}, s.Archive, joins.use)
	joins.wait(s)
	for partition := range int32(3) {
		s.PublishTo(partition, numbered(fmt.Sprint("a", partition, "-"), 5)...)
	}
	s.Until("the other worker to store", func(context.Context) (bool, error) { return stored() > before, nil })
	joins.release()
	s.wantTally("", "accepted 15")
	s.wantHalts()
}

func TestALogThatEndsBeforeTheCheckpointHaltsItsPartitionAlone(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	s.PublishTo(2, numbered("a", 2)...)
	s.ingested()
	w.Stop()
	// As after a broker was restored from an older copy: what was stored is in no log any more.
	s.asSuperuser("UPDATE lane SET next = 7 WHERE topic = '" + streams.Deliveries + "' AND partition = 2")
	s.StartIngest(ingest.Config{}, s.Archive)
	s.wantHalts("2 log_truncated 2-7")
	s.PublishTo(2, numbered("b", 9)...)
	s.PublishTo(1, numbered("c", 2)...)
	s.ingested(partition{streams.Deliveries, 2})
	s.wantTallyBut(2, "accepted 4")
}

func TestALogThatWasCutOffAndWrittenOnHaltsItsPartitionAlone(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("")
	s.PublishTo(1, numbered("a", 4)...)
	s.ingested()
	s.cutOff(1, 2)
	s.PublishTo(1, numbered("b", 2)...)
	s.wantHalts("1 log_truncated 2-4")
	s.PublishTo(0, numbered("c", 2)...)
	s.wantTallyBut(1, "accepted 6")
}

// cutOff gives a partition of deliveries a new leader that had none of the records from an offset on: it says so, and has others
// by now.
func (s *scene) cutOff(partition int32, end int64) {
	s.t.Helper()
	s.Broker.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.Broker.KeepControl()
		asked := req.(*kmsg.OffsetForLeaderEpochRequest)
		answer := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, topic := range asked.Topics {
			told := kmsg.OffsetForLeaderEpochResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				one := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				one.Partition, one.LeaderEpoch, one.EndOffset = p.Partition, p.LeaderEpoch, end
				told.Partitions = append(told.Partitions, one)
			}
			answer.Topics = append(answer.Topics, told)
		}
		return answer, nil, true
	})
	node, _, err := s.Broker.AddNode(-1, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.Broker.MoveTopicPartition(s.Cluster.Topic(streams.Deliveries), partition, node); err != nil {
		s.t.Fatal(err)
	}
}

func TestATopicMadeAgainIsHalted(t *testing.T) {
	for name, running := range map[string]bool{"while ingest runs": true, "while it does not": false} {
		t.Run(name, func(t *testing.T) {
			onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
				w := s.StartIngest(ingest.Config{}, s.Archive)
				s.ApplyFeed(specOf(t, ""))
				s.ApplyFeed(specOf(t, "feed: others\naccepts: {topics: [others], source: /acme-eu/export}\n"))
				for partition := range int32(3) {
					s.PublishTo(partition, numbered(fmt.Sprint("a", partition, "-"), 2)...)
				}
				s.ingested()
				if !running {
					w.Stop()
				}
				s.recreate(streams.Deliveries)
				if !running {
					s.StartIngest(ingest.Config{}, s.Archive)
				}
				s.wantHalts("0 topic_recreated 2-2", "1 topic_recreated 2-2", "2 topic_recreated 2-2")
				s.Publish(on("others", delivery("o", row("o", 1, "1"))))
				s.ingested(partition{streams.Deliveries, 0}, partition{streams.Deliveries, 1}, partition{streams.Deliveries, 2})
				if got := s.outcomes("others", "o"); len(got) != 1 {
					t.Errorf("another topic: got %v, want one outcome", got)
				}
				if got := s.tally(""); got != "accepted 6" {
					t.Errorf("got %s, want accepted 6", got)
				}
			}, "others")
		})
	}
}

// recreate deletes a topic and makes it again, with records as before.
func (s *scene) recreate(topic string) {
	s.t.Helper()
	admin := kadm.NewClient(s.Client)
	name := s.Cluster.Topic(topic)
	if _, err := admin.DeleteTopic(s.t.Context(), name); err != nil {
		s.t.Fatal(err)
	}
	s.Until("the topic to be made again", func(ctx context.Context) (bool, error) {
		_, err := admin.CreateTopic(ctx, 3, 1, nil, name)
		return err == nil, nil
	})
	again, err := s.Cluster.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer again.Close()
	for i, r := range numbered("again", 9) {
		r.Topic, r.Partition = name, int32(i%3)
		if err := again.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestAPartitionThatComesLaterBeginsAtZero(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	w.Stop()
	if _, err := kadm.NewClient(s.Client).CreatePartitions(t.Context(), 2, s.Cluster.Topic(streams.Deliveries)); err != nil {
		t.Fatal(err)
	}
	cl, err := s.Cluster.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range numbered("late", 3) {
		r.Topic, r.Partition = s.Cluster.Topic(r.Topic), 4
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.StartIngest(ingest.Config{}, s.Archive)
	s.wantTally("", "accepted 3")
	if got := ask[int](s, "SELECT start FROM audit_v1.position WHERE topic = $1 AND partition = 4", streams.Deliveries); got != 0 {
		t.Errorf("the new partition begins at %d, want 0", got)
	}
	s.verify()
}

func TestTransactionsOfPublishers(t *testing.T) {
	onBothBrokers(t, pipeline.Options{Partitions: 1}, func(t *testing.T, s *scene) {
		s.begin("")
		cl, err := s.Cluster.NewClient(kgo.TransactionalID(s.Cluster.Topic("publisher")))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for _, r := range numbered(fmt.Sprint("tx", i, "-"), 2) {
				r.Topic = s.Cluster.Topic(r.Topic)
				if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cl.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			s.ingested() // the position passes the marker at the end
		}
		s.wantTally("", "accepted 4")
		s.verify()
	})
}
