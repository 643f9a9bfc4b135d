package ingest_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// A scene is one installation with what the tests of ingest ask of it.
type scene struct {
	*pipeline.Pipeline
	t   *testing.T
	rng *rand.Rand
}

// newScene makes one with the topic deliveries, and more input topics. When the test ends no goroutine may be left of it.
func newScene(t *testing.T, o pipeline.Options, topics ...string) *scene {
	t.Helper()
	rig.PostgresServer(t)
	if o.RealKafka {
		rig.RealKafka(t)
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2")) // the mapper's: it stays for the next test
	})
	s := &scene{Pipeline: pipeline.New(t, o), t: t, rng: seeded(t)}
	if s.Broker != nil { // what a member does about partitions that move it learns with a heartbeat
		often := "100"
		_, err := kadm.NewClient(s.Client).AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "group.consumer.heartbeat.interval.ms", Value: &often}})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Topics(append(topics, streams.Deliveries)...)
	return s
}

// onBothBrokers runs a test on the fake broker and on Apache Kafka.
func onBothBrokers(t *testing.T, o pipeline.Options, test func(t *testing.T, s *scene), topics ...string) {
	t.Run("fake broker", func(t *testing.T) { test(t, newScene(t, o, topics...)) })
	t.Run("Apache Kafka", func(t *testing.T) {
		o.RealKafka = true
		test(t, newScene(t, o, topics...))
	})
}

// seeded returns a source of chance whose seed a failing test prints.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// specOf reads a feed. What is not given is that of acme-eu, whose source numbers its versions.
func specOf(t testing.TB, settings string) feed.Spec {
	t.Helper()
	given := map[string]bool{}
	for line := range strings.Lines(settings) {
		name, _, _ := strings.Cut(line, ":")
		given[name] = true
	}
	for _, d := range [][2]string{
		{"feed", "acme-eu"}, {"tenant", "t1"}, {"connector", "acme-eu"}, {"account", "ACC-1"},
		{"accepts", "{topics: [deliveries], source: /acme-eu/export}"}, {"order", "version"},
		{"mapping", "{version: 1, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty, price: .price, currency: .cur, deleted: .del}}"},
	} {
		if !given[d[0]] {
			settings += d[0] + ": " + d[1] + "\n"
		}
	}
	spec, err := feed.ParseYAML("feed.yaml", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// weak are the settings of a feed whose source gives no versions: every delivery is a claim of its own time.
const weak = `order: observed_at
mapping: {version: 1, fields: {source_record: .sku, item: {mpn: .sku}, quantity: .qty, price: .price, currency: .cur}}
`

// delivery is an event of acme-eu. Further attributes replace those that it has; an empty one is left out.
func delivery(id, body string, attributes ...string) *kgo.Record {
	pairs := []string{"specversion", "1.0", "id", id, "source", "/acme-eu/export", "type", streams.DeliveryType, "time", "2025-03-01T08:00:00Z"}
	r := &kgo.Record{Topic: streams.Deliveries, Value: []byte(body), Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}}}
	values := map[string]string{}
	var names []string
	for _, list := range [][]string{pairs, attributes} {
		for i := 0; i < len(list); i += 2 {
			if _, ok := values[list[i]]; !ok {
				names = append(names, list[i])
			}
			values[list[i]] = list[i+1]
		}
	}
	for _, n := range names {
		if values[n] != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + n, Value: []byte(values[n])})
		}
	}
	return r
}

// on is the record on another topic.
func on(topic string, r *kgo.Record) *kgo.Record {
	r.Topic = topic
	return r
}

// rows is a payload of n rows in version 1; the first has the given quantity.
func rows(n, first int) string {
	list := make([]string, n)
	for i := range list {
		qty := i
		if i == 0 {
			qty = first
		}
		list[i] = fmt.Sprintf(`{"sku": "R-%d", "rev": 1, "qty": %d}`, i, qty)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// row is a payload of one row.
func row(sku string, version int, qty string) string {
	return fmt.Sprintf(`{"sku": %q, "rev": %d, "qty": %s}`, sku, version, qty)
}

// startIngest runs ingest over an archive and a way to PostgreSQL that the test has its hand in.
func (s *scene) startIngest(cfg ingest.Config, arch ingest.Archive, change func(*pgxpool.Config)) *pipeline.Worker {
	s.t.Helper()
	own := s.Pool
	pc := own.Config()
	change(pc)
	changed, err := pgxpool.NewWithConfig(s.t.Context(), pc)
	if err != nil {
		s.t.Fatal(err)
	}
	defer changed.Close()
	s.Pool = changed // a worker's pool has the settings of this one
	defer func() { s.Pool = own }()
	return s.StartIngest(cfg, arch)
}

// A partition is one of an input topic, by its own name.
type partition struct {
	topic string
	n     int32
}

// ingested waits until every record that stands in the input topics has its outcome, but for those in some partitions.
func (s *scene) ingested(but ...partition) {
	s.t.Helper()
	ends := map[partition]int64{}
	for _, name := range s.Inputs {
		topic, err := kafka.Describe(s.t.Context(), s.Client, s.Cluster.Topic(name), false)
		if err != nil {
			s.t.Fatal(err)
		}
		for p, end := range topic.Ends {
			if at := (partition{name, int32(p)}); end > topic.Starts[p] && !slices.Contains(but, at) {
				ends[at] = end
			}
		}
	}
	s.Until("all records to be ingested", func(ctx context.Context) (bool, error) {
		behind := len(ends)
		err := s.inspect(ctx, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "SELECT p.topic, p.partition, p.next FROM audit_v1.position AS p WHERE p.kind = 'input' AND p.retired_at IS NULL")
			if err != nil {
				return err
			}
			var (
				p    partition
				next int64
			)
			_, err = pgx.ForEachRow(rows, []any{&p.topic, &p.n, &next}, func() error {
				if end, ok := ends[p]; ok && next >= end {
					behind--
				}
				return nil
			})
			return err
		})
		return behind == 0, err
	})
}

func (s *scene) inspect(ctx context.Context, f func(tx pgx.Tx) error) error {
	return postgres.InTx(ctx, s.Pool, postgres.Inspect, f)
}

// ask reads one value from the views of audit_v1.
func ask[T any](s *scene, sql string, args ...any) (value T) {
	s.t.Helper()
	if err := s.inspect(s.t.Context(), func(tx pgx.Tx) error { return tx.QueryRow(s.t.Context(), sql, args...).Scan(&value) }); err != nil {
		s.t.Fatal(err)
	}
	return value
}

// asked is a condition for Until: a question to the views of audit_v1 that is answered with true.
func (s *scene) asked(sql string, args ...any) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return ask[bool](s, sql, args...), nil }
}

// An outcome is one row of audit_v1.outcome.
type outcome struct {
	Partition int32
	Offset    int64
	Item      int
	Outcome   string
	Reason    string
	Detail    string
	Tenant    string
	EventID   string
	Archived  bool
	Rows      int
	Results   offer.Results
	First     string // of a repeat: partition/offset
}

// String is what became of it: accepted, duplicate, or the reason of its quarantine.
func (o outcome) String() string { return cmp.Or(o.Reason, o.Outcome) }

// outcomes returns what became of the events of a topic with an id ("": of all), in the order of the log.
func (s *scene) outcomes(topic, id string) []outcome {
	s.t.Helper()
	var list []outcome
	err := s.inspect(s.t.Context(), func(tx pgx.Tx) error {
		rows, err := tx.Query(s.t.Context(), `
			SELECT o.partition, o."offset", o.item, o.outcome, coalesce(o.reason, ''), coalesce(o.detail, ''), o.tenant,
			       coalesce(o.event_id, ''), o.archived, o.rows, o.saved, o.duplicate, o.old, o.ambiguous_order, o.rejected,
			       coalesce(f.partition || '/' || o.accepted_offset, '')
			  FROM audit_v1.outcome AS o
			  JOIN audit_v1.position AS p ON p.lane = o.lane
			  LEFT JOIN audit_v1.position AS f ON f.lane = o.accepted_lane
			 WHERE p.topic = $1
			   AND ($2 = '' OR o.event_id = $2)
			 ORDER BY o.partition, o."offset", o.item`, topic, id)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o outcome, err error) {
			r := &o.Results
			err = row.Scan(&o.Partition, &o.Offset, &o.Item, &o.Outcome, &o.Reason, &o.Detail, &o.Tenant, &o.EventID, &o.Archived,
				&o.Rows, &r.Saved, &r.Duplicate, &r.Old, &r.AmbiguousOrder, &r.Rejected, &o.First)
			return o, err
		})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// tally counts what became of the events of deliveries with an id, or of all: "accepted 1, duplicate 3".
func (s *scene) tally(id string) string {
	s.t.Helper()
	n := map[string]int{}
	for _, o := range s.outcomes(streams.Deliveries, id) {
		n[o.String()]++
	}
	var parts []string
	for what, count := range n {
		parts = append(parts, fmt.Sprintf("%s %d", what, count))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// wantTally waits until everything is ingested and compares.
func (s *scene) wantTally(id, want string) {
	s.t.Helper()
	s.ingested()
	if got := s.tally(id); got != want {
		s.t.Errorf("events with id %q: got %s, want %s", id, got, want)
	}
}

// attempts returns the receipts of an event of acme-eu, the oldest first.
func (s *scene) attempts(id string) []receipt.Document {
	s.t.Helper()
	key := offer.ReplayKey{Source: offer.Source{Tenant: "t1", Connector: "acme-eu", Account: "ACC-1"}, EventSource: "/acme-eu/export", EventID: id}
	var docs []receipt.Document
	err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Audit, "t1", func(tx pgx.Tx) (err error) {
		docs, err = receipt.Of(s.t.Context(), tx, key.ID())
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return docs
}

// stored sums up everything that a transaction of ingest writes.
func (s *scene) stored() string {
	s.t.Helper()
	return ask[string](s, `
		SELECT format('receipts %s, outcomes %s, observations %s, claims %s, artifacts %s, outbox %s, quarantine %s, runs %s, mappings %s, journal %s, next %s, sequence %s',
		              (SELECT count(*) FROM audit_v1.receipt), (SELECT count(*) FROM audit_v1.outcome), (SELECT count(*) FROM audit_v1.observation),
		              (SELECT count(*) FROM audit_v1.claim), (SELECT count(*) FROM audit_v1.artifact), (SELECT count(*) FROM audit_v1.outbox),
		              (SELECT string_agg(q.id || q.state, ' ' ORDER BY q.id) FROM audit_v1.quarantine AS q), (SELECT count(*) FROM audit_v1.run),
		              (SELECT count(*) FROM audit_v1.mapping), (SELECT count(*) FROM audit_v1.commit_journal),
		              (SELECT sum(p.next) FROM audit_v1.position AS p), (SELECT sum(p.sequence) FROM audit_v1.position AS p))`)
}

var auditMapper = sync.OnceValue(func() *mapping.Child { return mapping.NewChild(mapping.Config{Processes: 1}) })

// verify waits until everything is ingested and holds what is stored against the invariants.
func (s *scene) verify() {
	s.t.Helper()
	s.ingested()
	report, err := audit.Run(s.t.Context(), audit.Inputs{Pool: s.Pool, Cluster: s.Cluster, Archive: s.Archive, Mapper: auditMapper()})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range report.Invariants {
		for _, v := range i.Violations {
			s.t.Error(v)
		}
	}
}
