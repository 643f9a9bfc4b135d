package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/relay"
	"github.com/offerlog/offerlog/streams/rig"
)

// A bench is an installation without stages, on servers of the test's own.
type bench struct {
	cluster   kafka.Cluster
	kafka     *kgo.Client
	pool      *pgxpool.Pool
	superuser string
	stopKafka func()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dsn := rig.Database(t)
	addr, fake := rig.FakeKafka(t)
	b := &bench{cluster: kafka.Cluster{Brokers: []string{addr}}, superuser: rig.DatabaseAsSuperuser(t, dsn), stopKafka: fake.Close}
	var err error
	if b.pool, err = postgres.Open(t.Context(), dsn, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	if b.kafka, err = b.cluster.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kafka.Close)
	plan, err := kafka.Plan(t.Context(), b.kafka, b.cluster.Specs(streams.OwnTopics(2), []string{streams.Deliveries}, 2))
	if err == nil {
		err = kafka.Apply(t.Context(), b.kafka, plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) sql(t *testing.T, statement string) {
	t.Helper()
	err := execute(t.Context(), b.superuser, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), statement)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (b *bench) produce(t *testing.T, topic string, partition int32, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := b.kafka.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// lanes makes one lane for each partition of deliveries, all of them at offset 0 but the second, which is at 1.
const lanes = `INSERT INTO lane (id, kind, topic, topic_id, partition, start, next, sequence)
	VALUES (1, 'input', 'deliveries', gen_random_uuid(), 0, 0, 0, 5), (2, 'input', 'deliveries', gen_random_uuid(), 1, 0, 1, 0)`

// haltedProjector is a lane of the projector that is halted.
const haltedProjector = `INSERT INTO lane (id, kind, topic, topic_id, partition, start, next, halt_reason, halt_from, halt_to, halted_at)
	VALUES (9, 'projector', 'observations', gen_random_uuid(), 0, 0, 1, 'invariant_broken', 1, 2, now())`

func TestReadyzNamesWhatIsNotReady(t *testing.T) {
	b := newBench(t)
	folder := t.TempDir()
	evidence, err := archive.OpenFiles(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = evidence.Close() }) // nothing was written
	s := &server{kafka: b.kafka, pool: b.pool, archive: evidence, metrics: newCollector(nil, kafka.Cluster{}, nil, nil).registry()}
	check := func(what string, wantStatus int, want ...string) {
		t.Helper()
		rec := httptest.NewRecorder()
		s.routes().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		var answer struct {
			Ready    bool       `json:"ready"`
			NotReady []obstacle `json:"not_ready"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range answer.NotReady {
			got = append(got, o.What)
			if o.Reason == "" {
				t.Errorf("%s: %s has no reason", what, o.What)
			}
		}
		if rec.Code != wantStatus || answer.Ready != (len(want) == 0) || !slices.Equal(got, want) {
			t.Errorf("%s: got %d, ready %t, %v; want %d and %v", what, rec.Code, answer.Ready, answer.NotReady, wantStatus, want)
		}
	}
	check("all is well", http.StatusOK)
	b.sql(t, lanes)
	b.sql(t, "UPDATE lane SET halt_reason = 'log_gap', halt_from = 0, halt_to = 9, halted_at = now() WHERE id = 2")
	check("a halted lane", http.StatusServiceUnavailable, "deliveries/1")
	b.sql(t, haltedProjector)
	check("and one of the projector", http.StatusServiceUnavailable, "deliveries/1", "observations/0")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	check("and no archive", http.StatusServiceUnavailable, "deliveries/1", "observations/0", "archive")
	b.stopKafka()
	b.pool.Close()
	check("nothing is well", http.StatusServiceUnavailable, "kafka", "postgres", "archive")
}

func TestMetricsShowLagQuarantineAndHalts(t *testing.T) {
	b := newBench(t)
	b.sql(t, lanes)
	b.sql(t, "INSERT INTO relay_cursor (lane, published) VALUES (1, 2)")
	b.sql(t, `INSERT INTO commit_journal VALUES
		(1, 0, 1, 0, 2, 'w', now() - interval '3 hours'), (1, 1, 2, 2, 2, 'w', now() - interval '2 hours'), (1, 2, 3, 2, 5, 'w', now() - interval '1 hour')`)
	b.sql(t, `INSERT INTO quarantine (tenant, id, reason, lane, "offset", item, archived, state, settled_at, recorded_at) VALUES
		('a', gen_random_uuid(), 'unknown_feed', 1, 0, 0, true, 'open', NULL, now()), ('b', gen_random_uuid(), 'unknown_feed', 1, 1, 0, true, 'open', NULL, now()),
		('b', gen_random_uuid(), 'mapping_error', 1, 2, 0, true, 'resolved', now(), now())`)
	b.sql(t, "UPDATE lane SET halt_reason = 'log_gap', halt_from = 0, halt_to = 9, halted_at = now() WHERE id = 2")
	b.produce(t, streams.Deliveries, 0, "a", "b")
	b.produce(t, streams.Deliveries, 1, "done", "c")
	b.sql(t, "INSERT INTO projection (generation, partition, topic_id, lane, next) VALUES (1, 0, gen_random_uuid(), 9, 1)")
	b.produce(t, streams.Observations, 0, "done", "d", "e")
	b.sql(t, haltedProjector)

	c := newCollector(b.kafka, b.cluster, b.pool, slog.New(slog.DiscardHandler))
	c.stored(3, 5*time.Millisecond)
	c.stored(5, 9*time.Millisecond)
	rec := httptest.NewRecorder()
	(&server{metrics: c.registry()}).routes().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	var got []string
	for line := range strings.Lines(rec.Body.String()) {
		if strings.HasPrefix(line, "offerlog_") && !strings.Contains(line, "lag_seconds") && !strings.Contains(line, "seconds_sum") &&
			(!strings.Contains(line, "_bucket") || strings.Contains(line, `commit_seconds_bucket{le="0.008"}`)) {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{
		`offerlog_batch_records_sum 8`,
		`offerlog_batch_records_count 2`,
		`offerlog_commit_seconds_bucket{le="0.008"} 1`,
		`offerlog_commit_seconds_count 2`,
		`offerlog_partition_halted{reason="invariant_broken"} 1`,
		`offerlog_partition_halted{reason="log_gap"} 1`,
		`offerlog_quarantine_open{reason="unknown_feed"} 2`,
		`offerlog_stage_lag_records{stage="ingest"} 3`,
		`offerlog_stage_lag_records{stage="project"} 2`,
		`offerlog_stage_lag_records{stage="relay"} 3`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The oldest event that waits is of the third commit, an hour ago; the records were made just now.
	for stage, bounds := range map[string][2]int{roleRelay: {3600, 3660}, roleIngest: {0, 60}, roleProject: {0, 60}} {
		if age := int(c.last.lags[stage].age.Seconds()); age < bounds[0] || age > bounds[1] {
			t.Errorf("lag of %s: got %d s, want %v", stage, age, bounds)
		}
	}
}

func TestStatusShowsWhyThePartitionsOfEachStageAreHalted(t *testing.T) {
	b := newBench(t)
	b.sql(t, lanes)
	b.sql(t, "UPDATE lane SET halt_reason = 'log_gap', halt_from = 0, halt_to = 9, halted_at = now() WHERE id = 2")
	b.sql(t, haltedProjector)
	b.sql(t, "INSERT INTO projection (generation, partition, topic_id, lane, next) VALUES (1, 0, gen_random_uuid(), 9, 1)")
	in := &installation{app: &app{settings: Settings{Kafka: b.cluster.Brokers}}, kafka: b.kafka, pool: b.pool}
	list, err := in.positions(t.Context(), []string{streams.Deliveries})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprintf("%s %s/%d %s", s.Stage, s.Topic, s.Partition, s.Halt))
	}
	want := []string{"ingest deliveries/0 ", "ingest deliveries/1 log_gap 0 to 9", "project observations/0 invariant_broken 1 to 2", "project observations/1 "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{listener: listener, metrics: newCollector(nil, kafka.Cluster{}, nil, nil).registry()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/livez", listener.Addr()), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok\n" {
		t.Errorf("got %q, %v, want ok", body, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// The events between the copy of the cursor and the cursor may have been lost with the kill: the cursor goes back to the
// copy, once, and only where they differ.
func TestRepairLogSetsBackTheCursorsThatAreInDoubt(t *testing.T) {
	b := newBench(t)
	b.sql(t, "INSERT INTO relay_cursor (lane, published) VALUES (1, 2), (2, 4)")
	for _, c := range []struct {
		lane      int
		published int64
	}{{1, 2}, {2, 4}, {3, 1}, {1, 7}} {
		if err := b.kafka.ProduceSync(t.Context(), relay.CursorRecord(b.cluster, c.lane, c.published)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	in := &installation{app: &app{settings: Settings{Kafka: b.cluster.Brokers}}, kafka: b.kafka, pool: b.pool}
	for range 2 {
		if err := repairLog(t.Context(), in, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		got, err := relay.Cursors(t.Context(), b.cluster, b.kafka)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[int]int64{1: 2, 2: 4, 3: 0}; !maps.Equal(got, want) {
			t.Errorf("got cursors %v, want %v", got, want)
		}
	}
	top, err := kafka.Describe(t.Context(), b.kafka, streams.RelayCursor, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := top.Ends[0], int64(4+2); got != want {
		t.Errorf("got %d records, want %d: the four, and one for each lane in doubt", got, want)
	}
}
