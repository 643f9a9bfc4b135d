package project_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/project"
	"github.com/offerlog/offerlog/streams/rig"
)

// patience bounds every wait of a test; what works takes far less.
const patience = time.Minute

// An installation is a database and a cluster with the topic observations, fed by a feeder.
type installation struct {
	t       testing.TB
	dsn     string
	pool    *pgxpool.Pool
	stages  *pgxpool.Pool // what stages use: pool, or one through a proxy
	cluster kafka.Cluster
	client  *kgo.Client // writes transactions
	feeder  *feeder
	log     *journal
	commits chan struct{} // a stage has committed
}

func install(t testing.TB, broker string, partitions int32) *installation {
	t.Helper()
	dsn := rig.Database(t)
	in := &installation{
		t: t, dsn: dsn, pool: open(t, dsn), feeder: newFeeder(), log: &journal{}, commits: make(chan struct{}, 1),
		cluster: kafka.Cluster{Brokers: []string{broker}, Prefix: "project-" + uuid.NewString() + "."},
	}
	in.stages = in.pool
	var err error
	in.client, err = in.cluster.NewClient(kgo.TransactionalID(in.cluster.Topic("feeder")), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.client.Close)
	in.makeTopic(partitions)
	return in
}

func (in *installation) topic() string { return in.cluster.Topic(streams.Observations) }

func (in *installation) makeTopic(partitions int32) {
	in.t.Helper()
	if _, err := kadm.NewClient(in.client).CreateTopic(in.t.Context(), partitions, 1, nil, in.topic()); err != nil {
		in.t.Fatal(err)
	}
}

// claim stores what deliveries say in history, under the next numbers of a lane.
func (in *installation) claim(lane int, claims ...history.Observation) {
	in.t.Helper()
	err := postgres.InTx(in.t.Context(), in.pool, postgres.Ingest, func(tx pgx.Tx) error {
		return in.feeder.store(in.t.Context(), tx, lane, claims...)
	})
	if err != nil {
		in.t.Fatal(err)
	}
}

// relay writes events to the topic in one transaction.
func (in *installation) relay(end kgo.TransactionEndTry, events ...history.Event) {
	in.t.Helper()
	records := make([]*kgo.Record, len(events))
	for i, e := range events {
		records[i] = record(in.t, in.topic(), e)
	}
	in.write(end, records...)
}

func (in *installation) write(end kgo.TransactionEndTry, records ...*kgo.Record) {
	in.t.Helper()
	if err := in.client.BeginTransaction(); err != nil {
		in.t.Fatal(err)
	}
	if err := in.client.ProduceSync(in.t.Context(), records...).FirstErr(); err != nil {
		in.t.Fatal(err)
	}
	if err := in.client.EndTransaction(in.t.Context(), end); err != nil {
		in.t.Fatal(err)
	}
}

// say claims and relays in one go.
func (in *installation) say(lane int, claims ...history.Observation) {
	in.t.Helper()
	before := len(in.feeder.events[lane])
	in.claim(lane, claims...)
	in.relay(kgo.TryCommit, in.feeder.events[lane][before:]...)
}

// A running stage.
type running struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // of Run, once done is closed
}

// start runs a stage until the test ends, or it is stopped, or returns an error.
func (in *installation) start() *running {
	in.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, done: make(chan struct{})}
	stage := project.New(in.stages, in.cluster, project.Config{Committed: in.committed}, slog.New(slog.NewTextHandler(in.log, nil)))
	go func() {
		defer close(r.done)
		r.err = stage.Run(ctx)
		fmt.Fprintln(in.log, "the stage has ended:", r.err)
	}()
	in.t.Cleanup(r.halt)
	return r
}

func (in *installation) committed() {
	select {
	case in.commits <- struct{}{}:
	default:
	}
}

func (r *running) halt() {
	r.stop()
	<-r.done
}

// fails waits for the stage to return an error.
func (r *running) fails(t testing.TB) error {
	t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		t.Fatal("the stage goes on")
		return nil
	}
}

// until waits for a condition that a commit, or a tick, may have made true.
func (in *installation) until(what string, holds func() bool) {
	in.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-in.commits:
		case <-tick.C:
		case <-deadline:
			in.t.Fatalf("%s: not within %s; checkpoints %v; the log:\n%s", what, patience, in.positions(), in.log)
		}
	}
}

// ends are the offsets behind the last record of each partition. The mark that ends its transaction may still be on its way.
func (in *installation) ends() []int64 {
	in.t.Helper()
	topic, err := kafka.Describe(in.t.Context(), in.client, in.topic(), false)
	if err != nil {
		in.t.Fatal(err)
	}
	return topic.Ends
}

// reached reports whether offsets are at or past others.
func reached(next, ends []int64) bool {
	for i, end := range ends {
		if next[i] < end {
			return false
		}
	}
	return true
}

// settle waits until everything that the log holds is projected.
func (in *installation) settle() {
	in.t.Helper()
	ends := in.ends()
	in.until(fmt.Sprintf("the end of the log, %v, is projected", ends), func() bool {
		next := make([]int64, len(ends))
		for _, c := range in.positions() {
			next[c.Partition] = c.Next
		}
		return reached(next, ends)
	})
}

func (in *installation) query(f func(tx pgx.Tx) error) {
	in.t.Helper()
	if err := postgres.InTx(in.t.Context(), in.pool, postgres.Project, f); err != nil {
		in.t.Fatal(err)
	}
}

func (in *installation) positions() (list []view.Checkpoint) {
	in.t.Helper()
	in.query(func(tx pgx.Tx) (err error) {
		list, err = view.Positions(in.t.Context(), tx)
		return err
	})
	return list
}

func (in *installation) digest() (d offer.Digest) {
	in.t.Helper()
	in.query(func(tx pgx.Tx) (err error) {
		d, err = view.Digest(in.t.Context(), tx, 1)
		return err
	})
	return d
}

// A published event, as the outbox holds it.
type published struct {
	Lane     int
	Seq      int64
	Key      string
	Type     string
	Topic    string
	Document view.Document
}

func (in *installation) published() []published {
	in.t.Helper()
	var list []published
	err := postgres.InTx(in.t.Context(), in.pool, postgres.Relay, func(tx pgx.Tx) error {
		rows, err := tx.Query(in.t.Context(), "SELECT o.lane, o.first, o.key, o.event_type, o.topic, o.body FROM outbox AS o ORDER BY o.lane, o.first")
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p published, err error) {
			var body []byte
			if err := row.Scan(&p.Lane, &p.Seq, &p.Key, &p.Type, &p.Topic, &body); err != nil {
				return p, err
			}
			return p, json.Unmarshal(body, &p.Document)
		})
		return err
	})
	if err != nil {
		in.t.Fatal(err)
	}
	return list
}

// verify checks what must hold at rest: the rows are the fold of history, the last event of each offer is what the rows say,
// the numbers of the projector's lanes have no hole, and the journal tiles them.
func (in *installation) verify() {
	in.t.Helper()
	want := view.Fold(func(yield func(history.Event) bool) {
		for _, events := range in.feeder.events {
			for _, e := range events {
				if !yield(e) {
					return
				}
			}
		}
	}, decision.InForce{})
	if got := in.digest(); got != view.Sum(maps.Values(want)) {
		in.t.Error("the view is not the fold of history")
	}
	last := map[string]published{}
	seq := map[int]int64{}
	for _, p := range in.published() {
		if seq[p.Lane]++; p.Seq != seq[p.Lane] || p.Document.Revision != p.Seq {
			in.t.Errorf("lane %d: got number %d, revision %d, want %d", p.Lane, p.Seq, p.Document.Revision, seq[p.Lane])
		}
		if p.Topic != streams.CurrentOffers || p.Type != streams.OfferChanged {
			in.t.Errorf("got an event of type %s for topic %s", p.Type, p.Topic)
		}
		last[p.Key] = p
	}
	if len(last) != len(want) {
		in.t.Errorf("got %d offers published, want %d", len(last), len(want))
	}
	for k, o := range want {
		d := last[k.String()].Document
		// The content, not the winner: a revision that says the same is not published again.
		if d.Digest() != o.Rank.Content || d.Deleted != o.Deleted || strings.Join(d.Flags, ",") != o.Flags {
			in.t.Errorf("%s: published %+v, want %+v", k, d, o)
		}
	}
	var lanes []lane.Lane
	var holes int
	in.query(func(tx pgx.Tx) (err error) {
		if lanes, err = lane.List(in.t.Context(), tx, lane.Projector, streams.Observations); err != nil {
			return err
		}
		if _, err := tx.Exec(in.t.Context(), "SET LOCAL ROLE offerlog_inspect"); err != nil {
			return err
		}
		return tx.QueryRow(in.t.Context(), `
			SELECT count(*)
			  FROM (SELECT j.from_offset, j.from_seq, lag(j.to_offset, 1, p.start) OVER w AS to_offset, lag(j.to_seq, 1, 0::bigint) OVER w AS to_seq
			          FROM audit_v1.commit_journal AS j
			          JOIN audit_v1.position AS p ON p.lane = j.lane
			        WINDOW w AS (PARTITION BY j.lane ORDER BY j.from_offset)) AS j
			 WHERE (j.from_offset, j.from_seq) <> (j.to_offset, j.to_seq)`).Scan(&holes)
	})
	if holes > 0 {
		in.t.Errorf("the journal has %d holes", holes)
	}
	for _, c := range in.positions() {
		i := slices.IndexFunc(lanes, func(l lane.Lane) bool { return l.ID == c.Lane })
		if l := lanes[i]; l.Next != c.Next || l.Sequence != seq[l.ID] || l.Partition != c.Partition {
			in.t.Errorf("partition %d: the lane stands at %d with number %d, the checkpoint at %d, the outbox at %d", c.Partition, l.Next, l.Sequence, c.Next, seq[l.ID])
		}
	}
}

// A journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func fake(t testing.TB) string {
	addr, _ := rig.FakeKafka(t)
	return addr
}

// The story of a supplier, with everything that the log of observations may hold: several lanes, repeats, aborted
// transactions, and a stage that ends and begins again, alone and beside a second one.
func TestM_03_TheViewIsTheFoldOfTheTopic(t *testing.T) {
	for name, broker := range map[string]func(testing.TB) string{"fake": fake, "real": rig.RealKafka} {
		t.Run(name, func(t *testing.T) {
			rng := seeded(t)
			in := install(t, broker(t), 3)
			all := deliveries(t, "t1")
			for _, i := range rng.Perm(len(all)) {
				in.claim(100+rng.IntN(3), all[i])
			}
			first := in.start()
			log := in.feeder.shuffled(rng)
			for n := 0; len(log) > 0; n++ {
				k := min(len(log), 1+rng.IntN(9))
				if rng.IntN(3) == 0 {
					in.relay(kgo.TryAbort, log[:k]...)
				}
				in.relay(kgo.TryCommit, log[:k]...)
				log = log[k:]
				if n == 1 {
					in.start()
				}
				if n == 3 {
					first.halt()
				}
			}
			in.settle()
			in.verify()
			if first.err != nil {
				t.Errorf("a stage that is told to end: got %v", first.err)
			}
			if got, want := in.digest(), view.Sum(maps.Values(view.Fold(in.read(), decision.InForce{}))); got != want {
				t.Errorf("the digest of the view: got %s, the topic alone gives %s", got, want)
			}
		})
	}
}

// read yields the events of the topic, from their JSON alone.
func (in *installation) read() func(yield func(history.Event) bool) {
	in.t.Helper()
	ends := in.ends()
	cl, err := in.cluster.NewClient(kgo.ConsumeTopics(in.topic()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		in.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(in.t.Context(), patience)
	defer cancel()
	var events []history.Event
	next := make([]int64, len(ends))
	for !reached(next, ends) {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			in.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				events = append(events, in.parse(r.Value))
			}
		})
	}
	return slices.Values(events)
}

// parse reads as much of an event as its fold needs.
func (in *installation) parse(body []byte) (e history.Event) {
	in.t.Helper()
	var d history.SightingDocument
	if err := json.Unmarshal(body, &d); err != nil {
		in.t.Fatal(err)
	}
	at, err := offer.ParseTime(d.ObservedAt)
	if err != nil {
		in.t.Fatal(err)
	}
	id, err := uuid.Parse(d.ObservationID)
	if err != nil {
		in.t.Fatal(err)
	}
	e.Key = offer.Key{Tenant: d.Tenant, Account: d.Account, Record: d.Record}
	e.RevisionKey, e.Content = d.RevisionKey, d.Content
	e.Rank = offer.Rank{Order: at.Nanos, Mapping: d.MappingVersion, Content: d.Digest(), ID: offer.ObservationID(id)}
	if d.Order == "strong" {
		e.Rank.Strong = true
		if e.Rank.Order, err = strconv.ParseInt(d.Version, 10, 64); err != nil {
			in.t.Fatal(err)
		}
	}
	return e
}

func TestEachChangeIsPublishedOnceAndADeletionIsAValue(t *testing.T) {
	in := install(t, fake(t), 1)
	in.start()
	for i, c := range []claim{
		{version: 7, price: "99"},
		{version: 8, price: "119"},
		{version: 8, price: "119"}, // restated: nothing new
		{version: 7, price: "99"},  // old
		{version: 9, price: "119"}, // another version with the same content is not published again
		{version: 10, deleted: true},
		{version: 11, price: "129"},
	} {
		c.record = "A-1"
		in.say(1, c.observation(t, numberedDelivery(i)))
		in.settle()
	}
	var got []string
	for _, p := range in.published() {
		got = append(got, fmt.Sprintf("%s r%d v%s %s %t", p.Key, p.Document.Revision, p.Document.Version, p.Document.Price, p.Document.Deleted))
	}
	want := []string{"t1/ACC-1/A-1 r1 v7 99 false", "t1/ACC-1/A-1 r2 v8 119 false", "t1/ACC-1/A-1 r3 v10  true", "t1/ACC-1/A-1 r4 v11 129 false"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestALogThatRepeatsItselfChangesNothing(t *testing.T) {
	in := install(t, fake(t), 2)
	in.start()
	for i, o := range deliveries(t, "t1") {
		in.claim(i%2, o)
	}
	log := in.feeder.shuffled(seeded(t))
	in.relay(kgo.TryCommit, log...)
	in.settle()
	in.verify()
	before := in.published()
	in.relay(kgo.TryCommit, log...)
	in.settle()
	in.verify()
	if after := in.published(); len(after) != len(before) {
		t.Errorf("got %d events, want %d as before", len(after), len(before))
	}
}

// The checkpoint is PostgreSQL's word: what the group holds in Kafka is neither needed nor believed.
func TestOffsetsOfTheGroupAreWrittenAndNeverRead(t *testing.T) {
	in := install(t, fake(t), 1)
	adm := kadm.NewClient(in.client)
	group := in.cluster.Topic(streams.ProjectGroup)
	stage := in.start()
	in.say(1, claim{record: "A-1", version: 1, price: "1"}.observation(t, "1"))
	in.settle()
	end := in.positions()[0].Next
	in.until("the mirror follows", func() bool {
		offsets, err := adm.FetchOffsets(t.Context(), group)
		o, ok := offsets.Lookup(in.topic(), 0)
		return err == nil && ok && o.At >= end
	})
	for _, reverted := range []int64{0, end + 100} {
		stage.halt()
		if _, err := adm.CommitOffsets(t.Context(), group, kadm.OffsetsFromRecords(kgo.Record{Topic: in.topic(), Offset: reverted - 1})); err != nil {
			t.Fatal(err)
		}
		stage = in.start()
		in.say(1, claim{record: "A-1", version: 2 + reverted, price: "2"}.observation(t, numberedDelivery(int(reverted))))
		in.settle()
		in.verify()
	}
}

// A worker that was stopped while another took its partition writes nothing when it wakes.
func TestAZombieIsFenced(t *testing.T) {
	in := install(t, fake(t), 1)
	ctx := t.Context()
	in.start()
	in.say(1, claim{record: "A-1", version: 1, price: "1"}.observation(t, "1"))
	in.settle()
	// The other worker holds the checkpoint while the first fetches the same records and waits for it.
	in.query(func(tx pgx.Tx) error {
		c, err := view.Lock(ctx, tx, 1, 0)
		if err != nil {
			return err
		}
		in.say(1, claim{record: "A-1", version: 2, price: "2"}.observation(t, "2"))
		ends := in.ends()
		in.until("the first worker waits for the checkpoint", func() bool {
			var waiting bool
			err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks AS l WHERE NOT l.granted)").Scan(&waiting)
			return err != nil || waiting
		})
		if err != nil {
			return err
		}
		return projectAs(ctx, tx, c, ends[0], in.feeder.events[1][1])
	})
	in.until("the first worker is fenced", func() bool { return strings.Contains(in.log.String(), "fenced") })
	in.verify()
	in.say(1, claim{record: "A-1", version: 3, price: "3"}.observation(t, "3"))
	in.settle()
	in.verify()
	if n := len(in.published()); n != 3 {
		t.Errorf("got %d changes published, want 3", n)
	}
}

// projectAs does in one transaction what a worker does with one event.
func projectAs(ctx context.Context, tx pgx.Tx, c view.Checkpoint, to int64, e history.Event) error {
	held, err := lane.Lock(ctx, tx, []lane.Span{{Lane: c.Lane, From: c.Next, To: to}})
	if err != nil {
		return err
	}
	changes, err := apply(ctx, tx, &c, e)
	if err != nil {
		return err
	}
	held[0].Sequence++
	c.Next = to
	changes = numbered(changes, held[0].Sequence)
	body, err := changes[0].Body()
	if err != nil {
		return err
	}
	return errors.Join(
		view.Publish(ctx, tx, changes, time.Now()),
		outbox.Append(ctx, tx, nil, []outbox.Event{{Lane: c.Lane, Seq: held[0].Sequence, Topic: streams.CurrentOffers, Key: e.Key.String(),
			ID: uuid.New(), Type: streams.OfferChanged, Body: body, RecordedAt: held[0].RecordedAt}}),
		view.Advance(ctx, tx, c),
		lane.Advance(ctx, tx, held, "another worker"))
}

// The session of the stage dies at some place of its transaction, once: the batch is done again, and published once.
func TestACrashBetweenViewAndPublicationPublishesOnce(t *testing.T) {
	for _, table := range []string{"current_offer", "publication", "outbox", "projection", "commit_journal"} {
		t.Run("before "+table, func(t *testing.T) {
			in := install(t, fake(t), 1)
			in.start()
			in.say(1, claim{record: "B-2", version: 1, price: "1"}.observation(t, "0"))
			in.settle()
			in.superuser(`CREATE SEQUENCE hits`, `
				CREATE FUNCTION die_once() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
				BEGIN
				    IF nextval('hits') = 1 THEN
				        PERFORM pg_terminate_backend(pg_backend_pid());
				    END IF;
				    RETURN NEW;
				END $$`,
				`CREATE TRIGGER die BEFORE INSERT OR UPDATE ON `+table+` FOR EACH ROW EXECUTE FUNCTION die_once()`)
			in.say(1, claim{record: "A-1", version: 8, price: "119"}.observation(t, "1"))
			in.settle()
			in.verify()
			if !strings.Contains(in.log.String(), "out of reach") {
				t.Error("the session did not die")
			}
			if n := len(in.published()); n != 2 {
				t.Errorf("got %d changes published, want 2", n)
			}
		})
	}
}

func (in *installation) superuser(statements ...string) {
	in.t.Helper()
	conn, err := pgx.Connect(in.t.Context(), rig.DatabaseAsSuperuser(in.t, in.dsn))
	if err != nil {
		in.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(in.t.Context(), s); err != nil {
			in.t.Fatal(err)
		}
	}
}

func TestWhatTheStageRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		harm func(t *testing.T, in *installation)
		want error
		text string // of the error: what to do
	}{
		"a topic with more partitions": {func(_ *testing.T, in *installation) { in.addPartition() },
			project.ErrPartitions, "has 3, the view was projected from 2"},
		"no topic": {func(_ *testing.T, in *installation) { in.deleteTopic() }, kafka.ErrNoTopic, "run offerlog topics apply"},
	} {
		t.Run(name, func(t *testing.T) {
			in := install(t, fake(t), 2)
			stage := in.start()
			in.say(1, claim{record: "A-1", version: 1}.observation(t, "1"))
			in.settle()
			stage.halt()
			before := in.digest()
			tt.harm(t, in)
			if err := in.start().fails(t); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
			if got := in.digest(); got != before {
				t.Error("the view has changed")
			}
		})
	}
}

// What harms a partition halts it alone, with a reason, and the others go on.
func TestWhatHaltsAPartitionLeavesTheOthersAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		harm    func(t *testing.T, in *installation, sick string) // in the partition of a record
		running bool                                              // the harm comes while the stage runs
		want    string                                            // of the lane
		text    string                                            // in the log: what to do
	}{
		"a record that is no event, behind one that is": {func(t *testing.T, in *installation, sick string) {
			in.write(kgo.TryCommit, record(t, in.topic(), in.feeder.events[1][0]), &kgo.Record{Topic: in.topic(), Key: []byte("t1/ACC-1/" + sick), Value: []byte("{}")})
		}, true, "invariant_broken 3-4", "nobody but the relay may write this topic"},
		"an event without history": {func(t *testing.T, in *installation, _ string) {
			o := claim{record: in.recordIn(0, 1), version: 1}.observation(t, "9")
			o.Lane, o.Seq = 9, 1
			in.relay(kgo.TryCommit, history.Event{Observation: o})
		}, true, "invariant_broken 2-4", "restore the newest backup"},
		"a lane that does not stand where its checkpoint does": {func(t *testing.T, in *installation, sick string) {
			in.superuser("UPDATE lane SET next = next + 1 WHERE kind = 'projector' AND partition = 0")
			in.say(1, claim{record: sick, version: 2, price: "2"}.observation(t, "2"))
		}, true, "invariant_broken 2-4", "does not stand at 2"},
		"an offer that is published under a higher revision": {func(t *testing.T, in *installation, sick string) {
			in.superuser("UPDATE publication SET revision = 99")
			in.say(1, claim{record: sick, version: 2, price: "2"}.observation(t, "2"))
		}, true, "invariant_broken 2-4", "a higher revision already"},
		"a row that a constraint refuses, behind one that it does not": {func(t *testing.T, in *installation, sick string) {
			in.superuser("ALTER TABLE current_offer ADD CONSTRAINT at_most_two CHECK (ord < 3)")
			in.say(1, claim{record: in.recordIn(0, 1), version: 1}.observation(t, "2"), claim{record: sick, version: 3, price: "2"}.observation(t, "2"))
		}, true, "invariant_broken 3-4", "the database refuses what the record at offset 3 of"},
		"a value that cannot be": {func(t *testing.T, in *installation, sick string) {
			in.superuser("ALTER TABLE current_offer ADD CONSTRAINT quotient CHECK (1 / (ord - 3) < 9)")
			in.say(1, claim{record: in.recordIn(0, 1), version: 1}.observation(t, "2"), claim{record: sick, version: 3, price: "2"}.observation(t, "2"))
		}, true, "invariant_broken 3-4", "division by zero"},
		"a lane that was halted meanwhile": {func(t *testing.T, in *installation, sick string) {
			in.superuser("UPDATE lane SET halt_reason = 'log_gap', halt_from = 5, halt_to = 6 WHERE kind = 'projector' AND partition = 0")
			in.say(1, claim{record: sick, version: 2, price: "2"}.observation(t, "2"))
		}, true, "log_gap 5-6", "is halted"},
		"a log that ends before the checkpoint": {func(t *testing.T, in *installation, sick string) {
			in.moveCheckpoint(100)
			in.say(1, claim{record: sick, version: 2, price: "2"}.observation(t, "2")) // the stage is fenced, and reads on at 102
		}, true, "log_truncated 4-102", "restore the topic that was read"},
		"a log that ended before the checkpoint": {func(_ *testing.T, in *installation, _ string) {
			in.moveCheckpoint(100)
		}, false, "log_truncated 2-102", "restore the topic that was read"},
		"a log that has lost records": {func(t *testing.T, in *installation, sick string) {
			in.say(1, claim{record: sick, version: 2}.observation(t, "2"))
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: in.topic(), Partition: 0, At: 4})
			if _, err := kadm.NewClient(in.client).DeleteRecords(t.Context(), offsets); err != nil {
				t.Fatal(err)
			}
		}, false, "log_gap 2-4", "restore the topic that was read"},
	} {
		t.Run(name, func(t *testing.T) {
			in := install(t, fake(t), 2)
			stage := in.start()
			sick, well := in.recordIn(0, 0), in.recordIn(1, 0)
			in.say(1, claim{record: sick, version: 1, price: "1"}.observation(t, "1"))
			in.settle()
			if !tt.running {
				stage.halt()
			}
			tt.harm(t, in, sick)
			if !tt.running {
				stage = in.start()
			}
			in.wantHalts(tt.want, "")
			in.until("the log says "+tt.text, func() bool { return strings.Contains(in.log.String(), tt.text) })
			at := in.positions()[0].Next
			in.say(2, claim{record: well, version: 1, price: "1"}.observation(t, "well 1"))
			in.settleOnly(1)
			stage.halt()
			if stage.err != nil {
				t.Errorf("the stage has ended: %v", stage.err)
			}
			// Also of a stage that begins.
			in.start()
			in.say(2, claim{record: well, version: 2, price: "2"}.observation(t, "well 2"))
			in.settleOnly(1)
			in.wantHalts(tt.want, "")
			if got := in.positions()[0].Next; got != at {
				t.Errorf("the halted partition: got checkpoint %d, want %d as before", got, at)
			}
		})
	}
}

// What the database refuses is projected once that is mended, as the log says.
func TestAPartitionThatTheDatabaseHaltedGoesOn(t *testing.T) {
	in := install(t, fake(t), 2)
	stage := in.start()
	in.superuser("ALTER TABLE current_offer ADD CONSTRAINT at_most_one CHECK (ord < 2)")
	in.say(1, claim{record: in.recordIn(0, 0), version: 2, price: "2"}.observation(t, "1"))
	in.wantHalts("invariant_broken 0-1", "")
	stage.halt()
	in.superuser("ALTER TABLE current_offer DROP CONSTRAINT at_most_one")
	in.superuser("UPDATE lane SET halt_reason = NULL, halt_from = NULL, halt_to = NULL, halted_at = NULL WHERE kind = 'projector' AND partition = 0")
	in.start()
	in.settle()
	in.wantHalts("", "")
}

// recordIn returns the n-th record whose key is in a partition of two.
func (in *installation) recordIn(partition int32, n int) string {
	for i := 0; ; i++ {
		record := fmt.Sprintf("R-%d", i)
		if kafka.PartitionOf("t1/ACC-1/"+record, 2) != partition {
			continue
		}
		if n--; n < 0 {
			return record
		}
	}
}

// moveCheckpoint sets that of partition 0 ahead, as a log that was restored from an older copy has it.
func (in *installation) moveCheckpoint(by int64) {
	in.t.Helper()
	in.query(func(tx pgx.Tx) error {
		c, err := view.Lock(in.t.Context(), tx, 1, 0)
		c.Next += by
		return errors.Join(err, view.Advance(in.t.Context(), tx, c))
	})
}

// wantHalts waits for the halts of the partitions, in their order: "log_gap 2-5", or "".
func (in *installation) wantHalts(want ...string) {
	in.t.Helper()
	in.until(fmt.Sprintf("the halts %q", want), func() bool {
		var lanes []lane.Lane
		in.query(func(tx pgx.Tx) (err error) {
			lanes, err = lane.List(in.t.Context(), tx, lane.Projector, streams.Observations)
			return err
		})
		got := make([]string, len(lanes))
		for i, l := range lanes {
			if l.HaltReason != "" {
				got[i] = fmt.Sprintf("%s %d-%d", l.HaltReason, l.HaltFrom, l.HaltTo)
			}
		}
		return slices.Equal(got, want)
	})
}

// settleOnly waits until all of one partition is projected.
func (in *installation) settleOnly(partition int32) {
	in.t.Helper()
	end := in.ends()[partition]
	in.until(fmt.Sprintf("the end of partition %d, %d, is projected", partition, end), func() bool { return in.positions()[partition].Next >= end })
}

// A new leader that has fewer records than were projected says so, and takes others under their offsets.
func TestALogThatWasCutOffAndWrittenOnHaltsItsPartitionAlone(t *testing.T) {
	addr, broker := rig.FakeKafka(t)
	in := install(t, addr, 2)
	in.start()
	sick, well := in.recordIn(0, 0), in.recordIn(1, 0)
	in.say(1, claim{record: sick, version: 1}.observation(t, "1"), claim{record: sick, version: 2}.observation(t, "2"))
	in.settle()
	at := in.positions()[0].Next
	broker.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		asked := req.(*kmsg.OffsetForLeaderEpochRequest)
		answer := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, topic := range asked.Topics {
			told := kmsg.OffsetForLeaderEpochResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				one := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				one.Partition, one.LeaderEpoch, one.EndOffset = p.Partition, p.LeaderEpoch, 1
				told.Partitions = append(told.Partitions, one)
			}
			answer.Topics = append(answer.Topics, told)
		}
		return answer, nil, true
	})
	node, _, err := broker.AddNode(-1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.MoveTopicPartition(in.topic(), 0, node); err != nil {
		t.Fatal(err)
	}
	in.say(1, claim{record: sick, version: 3}.observation(t, "3"))
	in.wantHalts(fmt.Sprintf("log_truncated 1-%d", at), "")
	in.say(2, claim{record: well, version: 1}.observation(t, "4"))
	in.settleOnly(1)
	if got := in.positions()[0].Next; got != at {
		t.Errorf("the halted partition: got checkpoint %d, want %d as before", got, at)
	}
}

func (in *installation) deleteTopic() {
	in.t.Helper()
	if _, err := kadm.NewClient(in.client).DeleteTopic(in.t.Context(), in.topic()); err != nil {
		in.t.Fatal(err)
	}
}

func TestATopicThatWasMadeAgainIsHalted(t *testing.T) {
	for name, tt := range map[string]struct {
		running    bool
		partitions int32 // of the new topic
	}{
		"while the stage runs":                      {true, 2},
		"while none runs":                           {false, 2},
		"with more partitions":                      {false, 3},
		"with more partitions while the stage runs": {true, 3},
		"with fewer partitions":                     {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, fake(t), 2)
			stage := in.start()
			in.say(1, claim{record: in.recordIn(0, 0), version: 1}.observation(t, "1"))
			in.settle()
			if !tt.running {
				stage.halt()
			}
			at := in.positions()[1].Next
			in.deleteTopic()
			in.makeTopic(tt.partitions)
			if !tt.running {
				stage = in.start()
			}
			in.wantHalts("topic_recreated 2-2", fmt.Sprintf("topic_recreated %d-%d", at, at))
			in.until("the log says what to do", func() bool { return strings.Contains(in.log.String(), "restore the topic that was read") })
			stage.halt()
			if stage.err != nil {
				t.Errorf("the stage has ended: %v", stage.err)
			}
		})
	}
}

func TestATopicWithAnotherPartitionEndsTheStage(t *testing.T) {
	in := install(t, fake(t), 1)
	stage := in.start()
	in.say(1, claim{record: "A-1", version: 1}.observation(t, "1"))
	in.settle()
	in.addPartition()
	if err := stage.fails(t); !errors.Is(err, project.ErrPartitions) {
		t.Errorf("got %v, want %v", err, project.ErrPartitions)
	}
}

func (in *installation) addPartition() {
	in.t.Helper()
	if _, err := kadm.NewClient(in.client).CreatePartitions(in.t.Context(), 1, in.topic()); err != nil {
		in.t.Fatal(err)
	}
}
