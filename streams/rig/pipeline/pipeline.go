// Package pipeline runs the whole way from the input topics to the view inside a test, on the servers of package rig: every
// stage is the real one, with connections of its own as in a process of its own.
//
// It stands apart from rig so that the tests of a stage can use rig without importing the stage again. A package whose
// tests use it has Main as its TestMain.
package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/settle"
)

// Patience bounds every wait of a Pipeline.
const Patience = time.Minute

// Main runs the tests of a package, whose binary is its own mapper process too. It does not return.
func Main(m *testing.M) {
	rig.Main(m, func() bool {
		served, code := mapping.ServeIfChild()
		if code != 0 {
			os.Exit(code)
		}
		return served
	})
}

// mapper is one for all pipelines: its processes end with the test's.
var mapper = sync.OnceValue(func() *mapping.Child { return mapping.NewChild(mapping.Config{}) })

// Options has the choices of a Pipeline; the zero value works.
type Options struct {
	RealKafka  bool         // Apache Kafka instead of a fake broker
	Partitions int          // of each topic that has more than one; 0: 3
	MaxRecords int          // of one batch of ingest and of the projector; 0: their own choice
	Log        slog.Handler // of the stages; nil: shown if the test fails
}

// A Pipeline is one installation: a database, topics and an archive of its own, and the stages that were started.
type Pipeline struct {
	DSN     string // of a login that is no superuser
	Pool    *pgxpool.Pool
	Cluster kafka.Cluster
	Broker  *kfake.Cluster // the fake broker, for faults; nil on Apache Kafka
	Client  *kgo.Client    // for requests of the test
	Archive *archive.Archive
	Folder  string         // of the archive; its master key is 32 zeros
	Mapper  *mapping.Child // of all pipelines of the test process
	Inputs  []string       // input topics by their own names, commands among them

	t          testing.TB
	opts       Options
	log        *slog.Logger
	partitions map[string]int // of the input topics

	mu      sync.Mutex
	workers []*Worker
	failed  context.Context // done when a stage has ended with an error
	fail    context.CancelCauseFunc
}

// New makes a pipeline that goes with the test. It has no topics and no stage yet.
func New(t testing.TB, o Options) *Pipeline {
	t.Helper()
	o.Partitions = cmp.Or(o.Partitions, 3)
	p := &Pipeline{t: t, opts: o, DSN: rig.Database(t), Mapper: mapper(), partitions: map[string]int{}}
	p.failed, p.fail = context.WithCancelCause(context.Background())
	if o.RealKafka {
		p.Cluster = kafka.Cluster{Brokers: []string{rig.RealKafka(t)}, Prefix: "t" + uuid.NewString()[:8] + "."}
	} else {
		addr, broker := rig.FakeKafka(t)
		p.Cluster, p.Broker = kafka.Cluster{Brokers: []string{addr}}, broker
	}
	var err error
	if p.Client, err = p.Cluster.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Client.Close)
	if p.Pool, err = postgres.Open(t.Context(), p.DSN, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Pool.Close)
	p.Folder = filepath.Join(t.TempDir(), "archive")
	p.openArchive()
	p.log = slog.New(p.handler())
	t.Cleanup(p.stopAll)
	return p
}

// handler keeps what the stages log until it is known whether somebody wants to read it.
func (p *Pipeline) handler() slog.Handler {
	if p.opts.Log != nil {
		return p.opts.Log
	}
	var kept buffer
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("the stages said:\n%s", kept.String())
		}
	})
	return slog.NewTextHandler(&kept, nil)
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(line)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Topics makes offerlog's own topics and the input topics of the names.
func (p *Pipeline) Topics(names ...string) {
	p.t.Helper()
	ctx, cancel := p.patience()
	defer cancel()
	specs := p.Cluster.Specs(streams.OwnTopics(p.opts.Partitions), names, p.opts.Partitions)
	cl, err := p.Cluster.NewClient() // a client remembers for a while which topics were not there
	if err != nil {
		p.t.Fatal(err)
	}
	defer cl.Close()
	plan, err := kafka.Plan(ctx, cl, specs)
	if err == nil {
		err = kafka.Apply(ctx, cl, plan)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range specs {
		p.partitions[s.Name] = s.Partitions
	}
	p.Inputs = slices.Compact(slices.Sorted(slices.Values(append(append(p.Inputs, streams.Commands), names...))))
	if p.opts.RealKafka {
		p.t.Cleanup(func() {
			for _, s := range specs {
				if _, err := kadm.NewClient(p.Client).DeleteTopic(context.Background(), s.Name); err != nil {
					p.t.Errorf("delete topic %s: %v", s.Name, err)
				}
			}
		})
	}
}

// Restore dumps the database, restores it into another cluster, and goes on there. No worker may run.
func (p *Pipeline) Restore() {
	p.t.Helper()
	p.DSN = rig.Restored(p.t, p.DSN)
	pool, err := postgres.Open(p.t.Context(), p.DSN, p.Pool.Config().MaxConns)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(pool.Close)
	p.Pool = pool
	p.openArchive()
	p.t.Cleanup(p.stopAll) // before the cluster goes
}

// openArchive opens the folder, with the keys that the database has.
func (p *Pipeline) openArchive() {
	p.t.Helper()
	files, err := archive.OpenFiles(p.Folder)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = files.Close() }) // what was written is synced
	p.Archive = archive.New(files, archive.NewPostgresKeys(p.Pool, archive.OpenKeyring(make([]byte, 32))))
}

// ApplyFeed publishes the command that applies a feed and waits until it is accepted.
func (p *Pipeline) ApplyFeed(spec feed.Spec) {
	p.t.Helper()
	body, err := spec.JSON()
	if err != nil {
		p.t.Fatal(err)
	}
	if fault := p.Command(spec.Tenant, streams.FeedApplyType, body, nil); fault != "" {
		p.t.Fatalf("feed %s: %s", spec.Feed, fault)
	}
}

// Command publishes a command, waits for what becomes of it, and returns the reason of its refusal; "" where it was accepted,
// or had been before under its id. Of the attributes it adds those that every command has.
func (p *Pipeline) Command(tenant, kind string, data []byte, attributes map[string]string) (refusal string) {
	p.t.Helper()
	all := map[string]string{"id": uuid.NewString(), "source": "/test", "type": kind, streams.ExtTenant: tenant}
	maps.Copy(all, attributes)
	at := p.Publish(Event(streams.Commands, tenant, data, all))[0]
	p.Until("the command to be decided", func(ctx context.Context) (bool, error) {
		err := postgres.InTx(ctx, p.Pool, postgres.Inspect, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT coalesce(o.reason, '')
			                           FROM audit_v1.outcome AS o JOIN audit_v1.position AS p ON p.lane = o.lane
			                          WHERE (p.topic, p.partition, o."offset") = ($1, $2, $3)
			                            AND p.retired_at IS NULL`, streams.Commands, at.Partition, at.Offset).Scan(&refusal)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	})
	return refusal
}

// Event is a CloudEvent with JSON as a record to publish, in binary mode. Of the attributes it adds specversion and, unless
// there is another, the type of a delivery.
func Event(topic, key string, value []byte, attributes map[string]string) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: value, Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "content-type", Value: []byte("application/json")}}}
	if attributes["type"] == "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_type", Value: []byte(streams.DeliveryType)})
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + name, Value: []byte(attributes[name])})
	}
	return r
}

// Publish writes records, each once, in the order given and to the partition of its key. The topics are given by their own
// names. What it returns carries partitions and offsets.
func (p *Pipeline) Publish(records ...*kgo.Record) []*kgo.Record {
	p.t.Helper()
	return p.produce(records, func(r *kgo.Record) int32 { return kafka.PartitionOf(string(r.Key), p.partitions[r.Topic]) })
}

// PublishTo is Publish to one partition, whatever the keys.
func (p *Pipeline) PublishTo(partition int32, records ...*kgo.Record) []*kgo.Record {
	p.t.Helper()
	return p.produce(records, func(*kgo.Record) int32 { return partition })
}

// Feed is how tests deliver unless they have a reason: every record twice, in any order, into any partition.
func (p *Pipeline) Feed(rng *rand.Rand, records ...*kgo.Record) []*kgo.Record {
	p.t.Helper()
	twice := slices.Concat(records, records)
	rng.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
	return p.produce(twice, func(r *kgo.Record) int32 { return rng.Int32N(int32(p.partitions[r.Topic])) }) //nolint:gosec // a small number of the test
}

func (p *Pipeline) produce(records []*kgo.Record, partition func(*kgo.Record) int32) []*kgo.Record {
	p.t.Helper()
	ctx, cancel := p.patience()
	defer cancel()
	copies := make([]*kgo.Record, len(records))
	for i, r := range records {
		c := *r
		c.Topic = p.Cluster.Topic(r.Topic)
		c.Partition = partition(&c)
		copies[i] = &c
	}
	if err := p.Client.ProduceSync(ctx, copies...).FirstErr(); err != nil {
		p.t.Fatalf("publish %d records: %v", len(records), err)
	}
	return copies
}

// Settle waits until all that stands in the input topics is in the view.
func (p *Pipeline) Settle() {
	p.t.Helper()
	ctx, cancel := p.patience()
	defer cancel()
	if _, err := settle.Wait(ctx, p.Pool, p.Cluster, p.Inputs); err != nil {
		p.t.Fatal(err)
	}
}

// SettleOffers is Settle, and waits until the changes of offers are published.
func (p *Pipeline) SettleOffers() {
	p.t.Helper()
	p.Settle()
	ctx, cancel := p.patience()
	defer cancel()
	if err := settle.Announced(ctx, p.Pool); err != nil {
		p.t.Fatal(err)
	}
}

// Until looks until a condition holds. It fails the test when it never does, or when a stage has failed.
func (p *Pipeline) Until(what string, holds func(ctx context.Context) (bool, error)) {
	p.t.Helper()
	ctx, cancel := p.patience()
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds(ctx)
		switch {
		case ctx.Err() != nil:
			p.t.Fatalf("waited for %s: %v", what, context.Cause(ctx))
		case err != nil:
			p.t.Fatalf("waited for %s: %v", what, err)
		case ok:
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// patience is the context of one wait: it ends early when a stage has failed.
func (p *Pipeline) patience() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(p.failed, Patience, fmt.Errorf("not within %v", Patience))
	return ctx, cancel
}

// Observations returns the history of a tenant, the newest of each offer first.
func (p *Pipeline) Observations(tenant string) []history.Document {
	p.t.Helper()
	var docs []history.Document
	p.read(tenant, func(ctx context.Context, tx pgx.Tx) error {
		list, err := history.List(ctx, tx, history.Filter{Limit: 1 << 20})
		for i := range list {
			docs = append(docs, list[i].Document())
		}
		return err
	})
	return docs
}

// Offers returns the view of a tenant, deleted offers among them.
func (p *Pipeline) Offers(tenant string) []view.Document {
	p.t.Helper()
	var docs []view.Document
	p.read(tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		docs, err = view.Offers(ctx, tx, view.Filter{IncludeDeleted: true})
		return err
	})
	return docs
}

func (p *Pipeline) read(tenant string, f func(ctx context.Context, tx pgx.Tx) error) {
	p.t.Helper()
	ctx, cancel := p.patience()
	defer cancel()
	if err := postgres.AsTenant(ctx, p.Pool, postgres.Read, tenant, func(tx pgx.Tx) error { return f(ctx, tx) }); err != nil {
		p.t.Fatal(err)
	}
}

// Committed returns what a topic holds for committed readers, by partition and offset.
func (p *Pipeline) Committed(topic string) []*kgo.Record {
	p.t.Helper()
	ctx, cancel := p.patience()
	defer cancel()
	name := p.Cluster.Topic(topic)
	cl, err := p.Cluster.NewClient(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		p.t.Fatal(err)
	}
	defer cl.Close()
	bounds, err := kafka.Describe(ctx, cl, name, false)
	if err != nil {
		p.t.Fatal(err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{} // ends of the partitions that are not read yet
	for i, end := range bounds.Ends {
		if n := int32(i); end > bounds.Starts[i] {
			from[n], left[n] = kgo.NewOffset().At(bounds.Starts[i]), end
		}
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{name: from})
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			p.t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records
}
