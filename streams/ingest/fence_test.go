package ingest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// members returns which partitions of deliveries each member of ingest's group has.
func (s *scene) members(ctx context.Context) (map[string][]int32, error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{s.Cluster.Prefix + streams.IngestGroup}
	resp, err := req.RequestWith(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	deliveries, err := kafka.Describe(ctx, s.Client, s.Cluster.Topic(streams.Deliveries), false)
	if err != nil {
		return nil, err
	}
	members := map[string][]int32{}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, err
		}
		for _, m := range g.Members {
			members[m.MemberID] = nil
			for _, topic := range m.Assignment.TopicPartitions {
				if topic.TopicID == deliveries.ID {
					members[m.MemberID] = topic.Partitions
				}
			}
		}
	}
	return members, nil
}

// shared waits until two workers share the partitions of deliveries, and returns one partition of each.
func (s *scene) shared() (ofOne, ofOther int32) {
	s.t.Helper()
	s.Until("two workers to share the partitions", func(ctx context.Context) (bool, error) {
		members, err := s.members(ctx)
		var each []int32
		for _, partitions := range members {
			if len(partitions) > 0 {
				each = append(each, partitions[0])
			}
		}
		if err != nil || len(each) != 2 {
			return false, err
		}
		ofOne, ofOther = each[0], each[1]
		return true, nil
	})
	return ofOne, ofOther
}

// expel takes the only member out of the group, as its coordinator does with one that was not heard of for too long.
func (s *scene) expel() {
	s.t.Helper()
	members, err := s.members(s.t.Context())
	if err != nil || len(members) != 1 {
		s.t.Fatalf("got members %v, %v, want one", members, err)
	}
	for id := range members {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = s.Cluster.Prefix+streams.IngestGroup, id, -1
		resp, err := req.RequestWith(s.t.Context(), s.Client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestAWorkerThatLostItsPartitionsIsFenced(t *testing.T) {
	onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
		p := &trap{}
		s.startIngest(ingest.Config{Worker: "sleeper"}, s.Archive, p.use)
		s.ApplyFeed(specOf(t, ""))
		s.Feed(s.rng, delivery("before", rows(3, 1)))
		s.ingested()
		p.set(at(beforeLocksLanes)) // its transaction has begun
		d := delivery("D", rows(3, 2))
		s.Publish(d)
		p.wait(s)
		s.expel()
		s.StartIngest(ingest.Config{Worker: "heir"}, s.Archive)
		s.ingested()
		if got := s.attempts("D"); len(got) != 1 {
			t.Fatalf("the heir stored %+v", got)
		}
		before := s.stored()
		p.release()
		s.Until("the sleeper to roll back", func(context.Context) (bool, error) { return p.seen("after rollback"), nil })
		if got := s.stored(); got != before {
			t.Errorf("the fenced transaction changed something: got %s, want %s", got, before)
		}
		s.shared() // it joins again
		s.Feed(s.rng, d, delivery("after", rows(3, 1)))
		s.wantTally("", "accepted 3, duplicate 4")
		if got := ask[int](s, `SELECT count(*) FROM audit_v1.commit_journal AS j JOIN audit_v1.outcome AS o ON o.lane = j.lane AND o."offset" >= j.from_offset AND o."offset" < j.to_offset
		                        WHERE o.event_id = 'D' AND o.outcome = 'accepted' AND j.owner = 'heir'`); got != 1 {
			t.Errorf("the delivery is not of the heir's commit")
		}
		s.verify()
	})
}

// Whoever takes a lane over waits for the transaction of the one before, and goes on from where that has left it.
func TestAWorkerThatHoldsTheLanesCommitsAndTheNextOneGoesOnFromThere(t *testing.T) {
	onBothBrokers(t, pipeline.Options{Partitions: 1}, func(t *testing.T, s *scene) {
		slow, heir := &trap{}, &trap{}
		s.startIngest(ingest.Config{Worker: "slow"}, s.Archive, slow.use)
		s.ApplyFeed(specOf(t, ""))
		slow.set(at("after " + insertsRows))
		d := delivery("D", rows(3, 1))
		s.Publish(d)
		slow.wait(s)
		s.expel()
		heir.set(func(string) bool { return false })
		s.startIngest(ingest.Config{Worker: "heir"}, s.Archive, heir.use)
		s.Until("the heir to wait for the lanes", func(context.Context) (bool, error) { return heir.seen("before " + takesLanes), nil })
		slow.release()
		s.wantTally("D", "accepted 1")
		if got := ask[string](s, "SELECT j.owner FROM audit_v1.commit_journal AS j JOIN audit_v1.position AS p USING (lane) WHERE p.topic = $1", streams.Deliveries); got != "slow" {
			t.Errorf("the delivery is of the commit of %s", got)
		}
		s.Feed(s.rng, d)
		s.wantTally("D", "accepted 1, duplicate 2")
		s.verify()
	})
}

func TestS_000_48_two_workers_and_one_delivery(t *testing.T) {
	for name, o := range map[string]pipeline.Options{"fake broker": {}, "Apache Kafka": {RealKafka: true}} {
		t.Run(name, func(t *testing.T) {
			const rounds = 1000
			o.MaxRecords = 20
			s := newScene(t, o)
			s.StartIngest(ingest.Config{Worker: "one"}, s.Archive)
			s.StartIngest(ingest.Config{Worker: "two"}, s.Archive)
			s.ApplyFeed(specOf(t, ""))
			one, two := s.shared()
			records := make([]*kgo.Record, rounds)
			for i := range records {
				records[i] = delivery(fmt.Sprint("D", i), row(fmt.Sprint("R", i), 1, "1"))
			}
			s.PublishTo(one, records...)
			s.PublishTo(two, records...)
			s.wantTally("", fmt.Sprintf("accepted %d, duplicate %d", rounds, rounds))
			once := ask[int](s, `SELECT count(*) FROM (SELECT FROM audit_v1.outcome WHERE event_id LIKE 'D%' GROUP BY event_id
			                      HAVING count(*) FILTER (WHERE outcome = 'accepted') = 1 AND count(*) FILTER (WHERE outcome = 'duplicate') = 1) AS o`)
			if once != rounds {
				t.Errorf("got %d deliveries with one commit and one replay, want %d", once, rounds)
			}
			if got := ask[int](s, "SELECT count(DISTINCT owner) FROM audit_v1.commit_journal AS j JOIN audit_v1.position AS p USING (lane) WHERE p.topic = $1", streams.Deliveries); got != 2 {
				t.Errorf("got %d workers that committed, want 2", got)
			}
			s.noDeadlocks()
			s.verify()
		})
	}
}

// noDeadlocks holds PostgreSQL's own count against none.
func (s *scene) noDeadlocks() {
	s.t.Helper()
	var n int64
	if err := s.Pool.QueryRow(s.t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	if n != 0 {
		s.t.Errorf("got %d deadlocks, want 0", n)
	}
}

func TestTwoWorkersClaimTheSameRevisionsUnderDifferentDeliveries(t *testing.T) {
	s := newScene(t, pipeline.Options{MaxRecords: 3})
	one := s.StartIngest(ingest.Config{}, s.Archive)
	two := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	a, b := s.shared()
	const rounds, size = 100, 20
	for _, partition := range []int32{a, b} {
		records := make([]*kgo.Record, rounds)
		for i := range records {
			list := make([]string, size)
			for j := range list {
				list[j] = row(fmt.Sprint("R", j), i+1, "1")
			}
			s.rng.Shuffle(size, func(a, b int) { list[a], list[b] = list[b], list[a] })
			records[i] = delivery(fmt.Sprintf("D%d-%d", partition, i), "["+strings.Join(list, ",")+"]")
		}
		s.PublishTo(partition, records...)
	}
	s.wantTally("", fmt.Sprint("accepted ", 2*rounds))
	if got := len(s.Observations("t1")); got != rounds*size {
		t.Errorf("got %d observations, want %d", got, rounds*size)
	}
	if got := ask[int](s, "SELECT count(*) FROM audit_v1.claim WHERE sighting"); got != rounds*size {
		t.Errorf("got %d sightings, want %d", got, rounds*size)
	}
	if failed := append(one.Warnings(), two.Warnings()...); len(failed) > 0 {
		t.Errorf("batches failed: %s", failed)
	}
	s.verify()
}
