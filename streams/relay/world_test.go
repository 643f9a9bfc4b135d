package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m, beRelay) }

const partitions = 3

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// onBothBrokers runs a test on the fake broker and on Apache Kafka, each time in a world of its own.
func onBothBrokers(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("fake broker", func(t *testing.T) {
		addr, _ := rig.FakeKafka(t)
		test(t, newWorld(t, addr))
	})
	t.Run("Apache Kafka", func(t *testing.T) { test(t, newWorld(t, rig.RealKafka(t))) })
}

// A world is a database and a set of topics, with what is to be published.
type world struct {
	t       testing.TB
	dsn     string
	pool    *pgxpool.Pool
	cluster kafka.Cluster
	client  *kgo.Client
	lanes   []int

	mu     sync.Mutex
	stored map[int]string               // by lane: the kind of each of its events, as store takes them
	newest map[int]*history.Observation // by lane

	log *logbook // of the stage that was started last
}

var worlds atomic.Int64

func newWorld(t testing.TB, addr string) *world {
	t.Helper()
	w := &world{t: t, dsn: rig.Database(t), stored: map[int]string{}, newest: map[int]*history.Observation{},
		cluster: kafka.Cluster{Brokers: []string{addr}, Prefix: fmt.Sprintf("world-%d.", worlds.Add(1))}}
	pool, err := postgres.Open(t.Context(), w.dsn, 16)
	w.must(err)
	t.Cleanup(pool.Close)
	w.pool = pool
	w.applyTopics()
	return w
}

// applyTopics makes the topics on the cluster as it is named now.
func (w *world) applyTopics() {
	w.t.Helper()
	client, err := w.cluster.NewClient()
	w.must(err)
	defer client.Close()
	plan, err := kafka.Plan(w.t.Context(), client, w.cluster.Specs(streams.OwnTopics(partitions), nil, partitions))
	w.must(err)
	w.must(kafka.Apply(w.t.Context(), client, plan))
	w.client, err = w.cluster.NewClient() // the other one remembers that the topics did not exist
	w.must(err)
	w.t.Cleanup(w.client.Close)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// addLanes registers n more lanes.
func (w *world) addLanes(n int) {
	w.t.Helper()
	w.must(postgres.InTx(w.t.Context(), w.pool, postgres.Ingest, func(tx pgx.Tx) error {
		lanes, err := lane.Register(w.t.Context(), tx, lane.Input, "deliveries-"+strconv.Itoa(len(w.lanes)), uuid.New(), make([]int64, n))
		for _, l := range lanes {
			w.lanes = append(w.lanes, l.ID)
		}
		return err
	}))
}

// store stores one event of a lane for each letter of what, in one transaction: o an observation, s a sighting of the last
// one, c a change of an offer.
func (w *world) store(l int, what string) {
	w.t.Helper()
	w.must(w.storeWhile(l, what, func() {}))
}

// storeWhile calls hold in the transaction, after everything is written.
func (w *world) storeWhile(l int, what string, hold func()) error {
	ctx := w.t.Context()
	return postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) error {
		var next int64
		if err := tx.QueryRow(ctx, "SELECT next FROM lane WHERE id = $1", l).Scan(&next); err != nil {
			return err
		}
		held, err := lane.Lock(ctx, tx, []lane.Span{{Lane: l, From: next, To: next + 1}})
		if err != nil {
			return err
		}
		h := &held[0]
		var (
			ranges    []outbox.Range
			events    []outbox.Event
			obs       []*history.Observation
			sightings []history.Sighting
		)
		w.mu.Lock()
		newest := w.newest[l]
		w.mu.Unlock()
		for _, kind := range what {
			h.Sequence++
			seq := h.Sequence
			switch kind {
			case 'o':
				newest = observe(l, seq, h.RecordedAt)
				obs = append(obs, newest)
			case 's':
				c := newest.Claim
				c.Seq, c.Delivery, c.RecordedAt = seq, offer.DeliveryID(offer.Derive("test", "sighting", fmt.Sprint(l, seq))), h.RecordedAt
				sightings = append(sightings, history.Sighting{Claim: c, Of: newest})
			case 'c':
				k := key(l, seq)
				events = append(events, outbox.Event{Lane: l, Seq: seq, Topic: streams.CurrentOffers, Key: k.String(), ID: eventID(l, seq),
					Type: streams.OfferChanged, Body: fmt.Appendf(nil, `{"tenant":"acme","revision":%d,"note":%q}`, seq, strings.Repeat("x", 400)), RecordedAt: h.RecordedAt})
			}
			if kind == 'o' || kind == 's' {
				if n := len(ranges); n > 0 && ranges[n-1].Last == seq-1 {
					ranges[n-1].Last = seq
				} else {
					ranges = append(ranges, outbox.Range{Lane: l, First: seq, Last: seq, RecordedAt: h.RecordedAt})
				}
			}
		}
		if err := history.Append(ctx, tx, obs); err != nil {
			return err
		}
		if err := history.Sight(ctx, tx, sightings); err != nil {
			return err
		}
		if err := outbox.Append(ctx, tx, ranges, events); err != nil {
			return err
		}
		if err := lane.Advance(ctx, tx, held, "test"); err != nil {
			return err
		}
		w.mu.Lock()
		w.newest[l] = newest
		w.stored[l] += what
		w.mu.Unlock()
		hold()
		return nil
	})
}

func key(l int, seq int64) offer.Key {
	return offer.Key{Tenant: "acme", Account: "eu/1", Record: fmt.Sprintf("R %d-%d", l, seq)}
}

func eventID(l int, seq int64) uuid.UUID { return offer.Derive("test", "event", fmt.Sprint(l, seq)) }

func observe(l int, seq int64, at time.Time) *history.Observation {
	o := history.New("feed", key(l, seq), 1, offer.DeliveryID(offer.Derive("test", "delivery", fmt.Sprint(l, seq))), false, &offer.Row{
		Number: 1, Record: key(l, seq).Record, Version: seq, HasVersion: true, ObservedAt: offer.TimeOf(at),
		Content: offer.Content{Item: offer.Item{MPN: "AX-440"}, Price: offer.MustDecimal("0.0037"), Currency: "EUR"},
	})
	o.Lane, o.Seq, o.RetrievedAt, o.RecordedAt = l, seq, at, at
	return &o
}

// start runs a stage until the test ends or stop is called. What it logs is shown if the test fails.
func (w *world) start(cfg Config, opts ...kgo.Opt) (s *Stage, stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	log := &logbook{}
	w.log = log
	s = New(w.pool, w.cluster, cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s.producerOpts = opts
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		if w.t.Failed() {
			w.t.Logf("the relay's log:\n%s", log)
		}
	})
	w.t.Cleanup(stop)
	return s, stop
}

type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually waits until holds is true.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			w.t.Fatalf("waited %s in vain: %s", patience, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// settle waits until PostgreSQL knows everything as published.
func (w *world) settle(lanes ...int) {
	w.t.Helper()
	if len(lanes) == 0 {
		lanes = w.lanes
	}
	w.eventually("everything is published", func() bool {
		var open int
		w.query(&open, `SELECT count(*) FROM lane AS l LEFT JOIN relay_cursor AS c ON c.lane = l.id
			WHERE l.id = ANY ($1) AND l.sequence > coalesce(c.published, 0)`, lanes)
		return open == 0
	})
}

// query reads one value as the relay.
func (w *world) query(into any, sql string, args ...any) {
	w.t.Helper()
	w.must(postgres.InTx(w.t.Context(), w.pool, postgres.Relay, func(tx pgx.Tx) error {
		return tx.QueryRow(w.t.Context(), sql, args...).Scan(into)
	}))
}

// asSuperuser runs a statement that none of our roles may.
func (w *world) asSuperuser(sql string, args ...any) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), rig.DatabaseAsSuperuser(w.t, w.dsn))
	w.must(err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(w.t.Context(), sql, args...)
	w.must(err)
}

// committed reads the committed records of a topic, up to its end, by partition.
func (w *world) committed(topic string) [][]*kgo.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	topic = w.cluster.Topic(topic)
	d, err := kafka.Describe(ctx, w.client, topic, false)
	w.must(err)
	offsets := map[int32]kgo.Offset{}
	open := map[int32]bool{}
	for p, end := range d.Ends {
		if end > 0 {
			offsets[int32(p)], open[int32(p)] = kgo.NewOffset().AtStart(), true
		}
	}
	records := make([][]*kgo.Record, len(d.Ends))
	if len(open) == 0 {
		return records
	}
	reader, err := w.cluster.NewClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	w.must(err)
	defer reader.Close()
	for len(open) > 0 {
		f := reader.PollFetches(ctx)
		w.must(f.Err())
		for rec := range f.RecordsAll() {
			if rec.Offset+1 >= d.Ends[rec.Partition] {
				delete(open, rec.Partition)
			}
			if !rec.Attrs.IsControl() {
				records[rec.Partition] = append(records[rec.Partition], rec)
			}
		}
	}
	return records
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// verify compares the topics with what was stored: every event once in its partition, in the order of its lane.
func (w *world) verify() {
	w.t.Helper()
	type place struct {
		topic     string
		partition int32
	}
	got := map[place]map[int][]int64{} // numbers by lane
	for _, topic := range []string{streams.Observations, streams.CurrentOffers} {
		for p, records := range w.committed(topic) {
			byLane := map[int][]int64{}
			for _, r := range records {
				l, errL := strconv.Atoi(header(r, "ce_lane"))
				seq, errS := strconv.ParseInt(header(r, "ce_laneseq"), 10, 64)
				if errL != nil || errS != nil {
					w.t.Fatalf("%s/%d, offset %d: headers %v name no number of a lane", topic, p, r.Offset, r.Headers)
				}
				byLane[l] = append(byLane[l], seq)
			}
			got[place{topic, int32(p)}] = byLane
		}
	}
	want := map[place]map[int][]int64{}
	for at := range got {
		want[at] = map[int][]int64{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for l, what := range w.stored {
		newest := int64(0)
		for i, kind := range what {
			seq := int64(i) + 1
			add := func(topic string, p int32) { want[place{topic, p}][l] = append(want[place{topic, p}][l], seq) }
			switch kind {
			case 'o':
				newest = seq
				add(streams.Observations, kafka.PartitionOf(key(l, seq).String(), partitions))
			case 's':
				add(streams.Observations, kafka.PartitionOf(key(l, newest).String(), partitions))
			case 'c':
				add(streams.CurrentOffers, kafka.PartitionOf(key(l, seq).String(), partitions))
			}
		}
	}
	for at := range want {
		for l := range w.stored {
			if !slices.Equal(got[at][l], want[at][l]) {
				w.t.Errorf("%s/%d, lane %d: got %s, want %s", at.topic, at.partition, l, short(got[at][l]), short(want[at][l]))
			}
		}
	}
}

func short(numbers []int64) string {
	if len(numbers) <= 40 {
		return fmt.Sprint(numbers)
	}
	return fmt.Sprintf("%d numbers, %v ... %v", len(numbers), numbers[:20], numbers[len(numbers)-20:])
}

// cursors reads the last committed cursor of each lane from the log.
func (w *world) cursors() map[int]int64 {
	w.t.Helper()
	last := map[int]int64{}
	for _, r := range slices.Concat(w.committed(streams.RelayCursor)...) {
		var c cursor
		w.must(json.Unmarshal(r.Value, &c))
		if string(r.Key) != strconv.Itoa(c.Lane) {
			w.t.Errorf("the cursor of lane %d has key %q", c.Lane, r.Key)
		}
		last[c.Lane] = c.Published
	}
	return last
}
