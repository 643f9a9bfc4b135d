package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	event "github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// adopt decides twice under one id, and returns why it was refused.
func (s *scene) adopt(c ingest.LaneAdopt) (refusal string) {
	s.t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	id := map[string]string{"id": uuid.NewString(), streams.ExtActor: "alice", streams.ExtReason: "ticket 4411"}
	refusal = s.Command(offer.SystemTenant, streams.LaneAdoptType, data, id)
	if again := s.Command(offer.SystemTenant, streams.LaneAdoptType, data, id); again != refusal {
		s.t.Errorf("decided again: got %q, want %q", again, refusal)
	}
	return refusal
}

// gaps are what lanes go on without: "deliveries/0 log_gap 2-5 alice: ticket 4411".
func (s *scene) gaps() (list []string) {
	s.t.Helper()
	err := s.inspect(s.t.Context(), func(tx pgx.Tx) error {
		rows, err := tx.Query(s.t.Context(), `SELECT format('%s/%s %s %s-%s %s: %s', p.topic, g.partition, g.reason, g.from_offset, g.to_offset, g.actor, g.why)
		                                        FROM audit_v1.gap AS g JOIN audit_v1.position AS p USING (lane) ORDER BY p.topic, g.partition, g.recorded_at`)
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

func (s *scene) wantGaps(want ...string) {
	s.t.Helper()
	if got := s.gaps(); !slices.Equal(got, want) {
		s.t.Errorf("got gaps %q, want %q", got, want)
	}
}

func TestAPartitionGoesOnWithoutWhatItsLogLostOnceAnOperatorSaysSo(t *testing.T) {
	onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
		w := s.StartIngest(ingest.Config{}, s.Archive)
		s.ApplyFeed(specOf(t, ""))
		s.PublishTo(1, numbered("a", 2)...)
		s.ingested()
		w.Stop()
		s.PublishTo(1, numbered("b", 4)...)
		s.deleteRecords(1, 5)
		s.StartIngest(ingest.Config{}, s.Archive)
		s.wantHalts("1 log_gap 2-5")
		for what, c := range map[string]ingest.LaneAdopt{
			"another range":     {Topic: streams.Deliveries, Partition: 1, Halt: "log_gap", From: 2, To: 4},
			"another halt":      {Topic: streams.Deliveries, Partition: 1, Halt: "log_truncated", From: 2, To: 5},
			"a halt that is no": {Topic: streams.Deliveries, Partition: 1, Halt: "boredom", From: 2, To: 5},
			"one that runs":     {Topic: streams.Deliveries, Partition: 2, Halt: "log_gap", From: 2, To: 5},
			"one that is not":   {Topic: "nowhere", Partition: 0, Halt: "log_gap", From: 2, To: 5},
		} {
			if got := s.adopt(c); got != offer.ReasonSchemaInvalid {
				t.Errorf("%s: got %q, want it refused", what, got)
			}
		}
		s.wantHalts("1 log_gap 2-5")
		if got := s.adopt(ingest.LaneAdopt{Topic: streams.Deliveries, Partition: 1, Halt: "log_gap", From: 2, To: 5}); got != "" {
			t.Fatalf("refused: %s", got)
		}
		s.wantTally("", "accepted 3")
		s.wantHalts()
		s.wantGaps("deliveries/1 log_gap 2-5 alice: ticket 4411")
		s.verify()
	})
}

func TestAPartitionGoesOnAfterItsLogWasCutOffOnceAnOperatorSaysSo(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("")
	s.PublishTo(1, numbered("a", 4)...)
	s.ingested()
	s.cutOff(1, 2)
	s.PublishTo(1, numbered("b", 2)...)
	s.wantHalts("1 log_truncated 2-4")
	if got := s.adopt(ingest.LaneAdopt{Topic: streams.Deliveries, Partition: 1, Halt: "log_truncated", From: 2, To: 4}); got != "" {
		t.Fatalf("refused: %s", got)
	}
	s.wantTally("", "accepted 6")
	s.wantHalts()
	s.wantGaps("deliveries/1 log_truncated 2-4 alice: ticket 4411")
	s.verify()
}

func TestATopicMadeAgainIsReadOnceAnOperatorSaysSo(t *testing.T) {
	onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
		s.StartIngest(ingest.Config{}, s.Archive)
		s.ApplyFeed(specOf(t, ""))
		for partition := range int32(3) {
			s.PublishTo(partition, numbered(fmt.Sprint("a", partition, "-"), 2)...)
		}
		s.ingested()
		s.recreate(streams.Deliveries)
		s.wantHalts("0 topic_recreated 2-2", "1 topic_recreated 2-2", "2 topic_recreated 2-2")
		if got := s.adopt(ingest.LaneAdopt{Topic: streams.Deliveries, Partition: 1, Halt: "topic_recreated", From: 2, To: 2}); got != "" {
			t.Fatalf("refused: %s", got)
		}
		s.wantTally("", "accepted 15")
		s.wantHalts()
		s.wantGaps("deliveries/0 topic_recreated 2-2 alice: ticket 4411", "deliveries/1 topic_recreated 2-2 alice: ticket 4411",
			"deliveries/2 topic_recreated 2-2 alice: ticket 4411")
		s.verify()
	})
}

func TestTheCommandsThemselvesAreAdoptedDirectly(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	w.Stop()
	s.Publish(command("lost", "{}"), command("lost too", "{}"))
	s.deleteRecordsOf(streams.Commands, 0, 3)
	s.StartIngest(ingest.Config{}, s.Archive)
	s.Until("commands to be halted", s.asked("SELECT count(*) = 1 FROM audit_v1.halt WHERE reason = 'log_gap'"))
	data := `{"topic": "commands", "partition": 0, "halt": "log_gap", "from": 1, "to": 3}`
	rec := pipeline.Event(streams.Commands, offer.SystemTenant, []byte(data), map[string]string{"id": "A", "source": "/test",
		"type": streams.LaneAdoptType, streams.ExtTenant: offer.SystemTenant, streams.ExtActor: "bob", streams.ExtReason: "disk"})
	id := ask[uuid.UUID](s, "SELECT topic_id FROM audit_v1.position WHERE topic = $1", streams.Commands)
	ev := &event.Decode(rec)[0].Event
	if err := ingest.AdoptCommands(t.Context(), s.Pool, s.Archive, id, ev); err != nil {
		t.Fatal(err)
	}
	if err := ingest.AdoptCommands(t.Context(), s.Pool, s.Archive, id, ev); err == nil {
		t.Error("what is not halted was adopted again")
	}
	s.ApplyFeed(specOf(t, "feed: another\naccepts: {topics: [deliveries], source: /another}\n"))
	s.wantGaps("commands/0 log_gap 1-3 bob: disk")
	if got := ask[string](s, "SELECT encode(a.sha256, 'hex') FROM audit_v1.artifact AS a JOIN audit_v1.gap AS g ON g.artifact = a.name"); got != offer.Sum([]byte(data)).String() {
		t.Errorf("the decision's evidence has the digest %s", got)
	}
	s.verify()
}

// References of a replay that were let go unread come to nothing, so it sends again what has no outcome, and ends.
func TestAReplayGoesOnPastReferencesThatWereLetGo(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	relay := s.Start(pipeline.Relay)
	s.Start(pipeline.Project)
	s.ApplyFeed(specOf(t, ""))
	const deliveries = 24
	s.Publish(numbered("a", deliveries)...)
	s.SettleOffers()
	if got := s.replayAll(replay.Selection{Record: "a0"}); got != "duplicate 1" { // from now on ingest reads the topic
		t.Fatalf("got %q, want duplicate 1", got)
	}
	relay.Stop()
	id := s.startReplay(replay.Selection{}, 100_000)
	s.Until("all references to be in the outbox", s.asked("SELECT r.sent = $2 FROM audit_v1.replay_run AS r WHERE r.id = $1", id, deliveries))
	w.Stop()
	s.Start(pipeline.Relay)
	s.Until("all references to be in the topic", func(context.Context) (bool, error) { return len(s.Committed(streams.Replays)) == 1+deliveries, nil })
	// Half of them are lost. The others are read after the decision, before they are sent again or after it: each counts once.
	upTo := s.Committed(streams.Replays)[1+deliveries/2].Offset
	s.deleteRecordsOf(streams.Replays, 0, upTo)
	s.StartIngest(ingest.Config{}, s.Archive)
	s.Until("the partition to halt", s.asked("SELECT count(*) = 1 FROM audit_v1.halt"))
	from := ask[int64](s, "SELECT h.from_offset FROM audit_v1.halt AS h")
	if got := s.adopt(ingest.LaneAdopt{Topic: streams.Replays, Partition: 0, Halt: "log_gap", From: from, To: upTo}); got != "" {
		t.Fatalf("refused: %s", got)
	}
	s.awaitReplay(id)
	read := ask[int](s, "SELECT count(DISTINCT (r.origin_lane, r.origin_offset)) FROM audit_v1.replay AS r WHERE r.of_run = $1", id)
	if read != deliveries {
		t.Errorf("%d deliveries were read again, want %d", read, deliveries)
	}
	if sent, answered := ask[int](s, "SELECT r.sent FROM audit_v1.replay_run AS r WHERE r.id = $1", id), ask[int](s, "SELECT r.answered FROM audit_v1.replay_run AS r WHERE r.id = $1", id); sent != deliveries || answered != deliveries {
		t.Errorf("got %d sent and %d answered, want %d", sent, answered, deliveries)
	}
	s.verify()
}

// A correction whose reference was let go unread has not happened, so its entry is open again.
func TestACorrectionThatWasLetGoIsReleasedAgain(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	relay := s.Start(pipeline.Relay)
	s.Start(pipeline.Project)
	s.ApplyFeed(specOf(t, ""))
	s.Feed(s.rng, delivery("D", priced("A 119", "B 20")))
	s.SettleOffers()
	s.Feed(s.rng, delivery("E", priced("A 99", "B 21"))) // other content under the same versions
	s.SettleOffers()
	entries := s.entries("t1")
	s.release("t1", entries[0].ID) // from now on ingest reads the topic
	relay.Stop()
	if refusal := s.decideEntries(streams.QuarantineReleaseType, "t1", entries[1].ID); refusal != "" {
		t.Fatal(refusal)
	}
	w.Stop()
	s.Start(pipeline.Relay)
	s.Until("the reference to be in the topic", func(context.Context) (bool, error) { return len(s.Committed(streams.Replays)) == 2, nil })
	upTo := s.Committed(streams.Replays)[1].Offset + 1
	s.deleteRecordsOf(streams.Replays, 0, upTo)
	s.StartIngest(ingest.Config{}, s.Archive)
	s.Until("the partition to halt", s.asked("SELECT count(*) = 1 FROM audit_v1.halt"))
	from := ask[int64](s, "SELECT h.from_offset FROM audit_v1.halt AS h")
	if got := s.adopt(ingest.LaneAdopt{Topic: streams.Replays, Partition: 0, Halt: "log_gap", From: from, To: upTo}); got != "" {
		t.Fatalf("refused: %s", got)
	}
	if open := s.entry("t1"); open.ID != entries[1].ID {
		t.Errorf("got entry %s open, want %s", open.ID, entries[1].ID)
	}
	if refusal := s.decideEntries(streams.QuarantineReleaseType, "t1", entries[1].ID); refusal != "" {
		t.Fatal(refusal)
	}
	s.Until("the correction to be read", s.asked("SELECT count(*) = 2 FROM audit_v1.replay"))
	s.wantPrices("A 99, B 21")
	s.verify()
}
