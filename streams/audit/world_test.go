package audit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/project"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

const strongFeed = `
feed: strong
tenant: t1
connector: c1
account: ACC-1
accepts: {topics: [deliveries], source: /strong}
format: {kind: json, rows: ".[]"}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty, price: .price, currency: '"EUR"', deleted: .deleted, observed_at: .ts}
`

const weakFeed = `
feed: weak
tenant: t1
connector: c2
account: ACC-2
accepts: {topics: [deliveries], source: /weak}
format: {kind: json, rows: ".[]"}
order: observed_at
mapping:
  version: 1
  fields: {source_record: .sku, item: {mpn: .sku}, quantity: .qty, price: .price, currency: '"EUR"'}
`

const catalogueFeed = `
feed: catalogue
tenant: t1
connector: c3
account: ACC-3
accepts: {topics: [deliveries], source: /catalogue}
format: {kind: json, rows: ".[]"}
order: observed_at
mode: snapshot
mapping:
  version: 1
  fields: {source_record: .sku, item: {mpn: .sku}, quantity: .qty, observed_at: .ts}
policy: {brake: {max_rows_lost: "60%"}}
`

// event is a record that carries a delivery in binary mode.
func event(source, id, data string) *kgo.Record {
	r := &kgo.Record{Topic: streams.Deliveries, Key: []byte(id), Value: []byte(data)}
	for _, h := range [][2]string{{"ce_specversion", "1.0"}, {"ce_id", id}, {"ce_source", source}, {"ce_type", streams.DeliveryType},
		{"ce_time", "2025-03-01T08:00:00Z"}, {"content-type", "application/json"}} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return r
}

// catalogue is a whole one as of a second.
func catalogue(id string, second int, skus ...string) *kgo.Record {
	rows := make([]string, len(skus))
	for i, sku := range skus {
		rows[i] = row(sku, second, "")
	}
	r := event("/catalogue", id, "["+strings.Join(rows, ",")+"]")
	i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == "ce_time" })
	r.Headers[i].Value = fmt.Appendf(nil, "2025-03-01T07:00:%02dZ", second)
	return r
}

// batch is a record that carries events in batch mode.
func batch(events string) *kgo.Record {
	return &kgo.Record{Topic: streams.Deliveries, Value: []byte(events), Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/cloudevents-batch+json")}}}
}

func row(sku string, rev int, rest string) string {
	return fmt.Sprintf(`{"sku": %q, "rev": %d, "qty": 6, "ts": "2025-03-01T07:00:%02dZ"%s}`, sku, rev, rev, rest)
}

// page is an event as the only page of a run.
func page(run string, r *kgo.Record) *kgo.Record {
	for _, a := range [][2]string{{"runid", run}, {"page", "1"}, {"pages", "1"}} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + a[0], Value: []byte(a[1])})
	}
	return r
}

// A world is an installation at rest, with one of everything that can happen to a delivery.
type world struct {
	*pipeline.Pipeline
	t       *testing.T
	archive string // the folder
}

func newWorld(t *testing.T, o pipeline.Options) *world {
	t.Helper()
	w := &world{Pipeline: pipeline.New(t, o), t: t}
	// The pipeline's archive lies in a folder of the test, beside the one that this makes.
	found, err := filepath.Glob(filepath.Join(filepath.Dir(t.TempDir()), "*", "archive"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got archives %v, %v, want one", found, err)
	}
	w.archive = found[0]
	w.Topics(streams.Deliveries)
	workers := []*pipeline.Worker{w.Start(pipeline.Ingest), w.Start(pipeline.Relay), w.Start(pipeline.Project)}
	for _, text := range []string{strongFeed, weakFeed, catalogueFeed} {
		spec, err := feed.ParseYAML("feed.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w.ApplyFeed(spec)
	}
	// First what decides by order, then all of it again, with the rest, in any.
	first := []*kgo.Record{
		event("/strong", "D-1", "["+row("A", 1, `, "price": "10.50"`)+","+row("B", 3, "")+"]"),
		event("/strong", "D-2", "["+row("A", 2, `, "price": "11.25"`)+"]"),
		event("/weak", "W-1", `[{"sku": "A", "qty": 1}]`),
		event("/strong", "DOOMED", "["+row("C", 9, `, "price": "7"`)+"]"),
	}
	w.Publish(first...)
	w.abort(event("/strong", "ABORTED", "["+row("A", 7, "")+"]"))
	w.SettleOffers()
	rest := append([]*kgo.Record{
		event("/strong", "D-3", "["+row("B", 1, "")+"]"),                                                 // old
		event("/strong", "D-4", "["+row("A", 2, `, "price": "11.25"`)+","+row("D", 1, "")+"]"),           // restates A
		event("/strong", "D-5", "["+row("A", 1, `, "price": "99"`)+","+row("E", 1, "")+"]"),              // contradicts A
		event("/strong", "D-6", "["+row("F", 1, "")+`,{"rev": 1},`+row("F", 1, "")+"]"),                  // a row without a record, a row twice
		event("/strong", "D-7", "["+row("E", 2, `, "deleted": true`)+"]"),                                // deleted
		event("/weak", "W-2", `[{"sku": "A", "qty": 2}]`),                                                // ambiguous
		event("/strong", "D-2", "["+row("A", 2, `, "price": "12"`)+"]"),                                  // another payload under the id
		event("/strong", "D-8", `[`),                                                                     // unreadable
		event("/nobody", "N-1", `[]`),                                                                    // no feed
		event("/strong", "D-9", `[]`),                                                                    // no rows
		{Topic: streams.Deliveries, Value: []byte("nonsense")},                                           // no event
		catalogue("S-1", 1, "X", "Y", "Z"), catalogue("S-2", 2, "X", "Y"), catalogue("S-3", 3, "X", "V"), // Z goes, and then Y
		page("RUN", event("/strong", "P-1", "["+row("P", 1, "")+"]")), // the only one of its run
		batch(`[]`), // no events
		batch(`[{"specversion": "1.0", "id": "B-1", "source": "/strong", "type": "offerlog.delivery.v1", "data": [` + row("G", 1, "") + `]},
		        {"specversion": "1.0", "id": "B-2", "source": "/strong", "type": "offerlog.delivery.v1", "data": [` + row("H", 1, "") + `]}]`),
	}, first...)
	for i := range 40 {
		rest = append(rest, event("/strong", fmt.Sprint("R-", i), "["+row(fmt.Sprint("R-", i%20), 1+i/20, "")+"]"))
	}
	w.Feed(rand.New(rand.NewPCG(7, 11)), rest...)
	w.SettleOffers()
	for _, worker := range workers {
		worker.Stop()
	}
	if _, err := project.Finish(t.Context(), w.Pool, 1); err != nil { // its manifest
		t.Fatal(err)
	}
	return w
}

// abort publishes a record in a transaction that is then aborted.
func (w *world) abort(r *kgo.Record) {
	w.t.Helper()
	client, err := w.Cluster.NewClient(kgo.TransactionalID(w.Cluster.Topic("test-aborts")))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	r.Topic = w.Cluster.Topic(r.Topic)
	err = client.BeginTransaction()
	if err == nil {
		err = client.ProduceSync(w.t.Context(), r).FirstErr()
	}
	if err == nil {
		err = client.EndTransaction(w.t.Context(), kgo.TryAbort)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

var (
	mapper = mapping.NewChild(mapping.Config{}) // its processes end with the tests
	copies atomic.Int64
)

// copy makes a database like the world's, for one test, and returns what an audit of it takes and a connection for what no
// role of offerlog may do. From the first copy on the world itself has no connection any more.
func (w *world) copy(t *testing.T) (audit.Inputs, *pgx.Conn) {
	t.Helper()
	w.Pool.Close()
	connect := func(dsn string) *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), rig.DatabaseAsSuperuser(t, dsn))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // it has answered
		return conn
	}
	u, err := url.Parse(w.DSN)
	if err != nil {
		t.Fatal(err)
	}
	template := strings.TrimPrefix(u.Path, "/")
	name := fmt.Sprintf("%s_audited_%d", template, copies.Add(1))
	u.Path = "/postgres"
	server := connect(u.String())
	if _, err := server.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	u.Path = "/" + name
	pool, err := postgres.Open(t.Context(), u.String(), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	files, err := archive.OpenFiles(w.archive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() }) // it was only read
	in := audit.Inputs{Pool: pool, Cluster: w.Cluster, Mapper: mapper,
		Archive: archive.New(files, archive.NewPostgresKeys(pool, archive.OpenKeyring(make([]byte, 32))))}
	return in, connect(u.String())
}

// inputs is what an audit of the world as it is takes.
func (w *world) inputs() audit.Inputs {
	return audit.Inputs{Pool: w.Pool, Cluster: w.Cluster, Archive: w.Archive, Mapper: mapper}
}

func run(t *testing.T, in audit.Inputs) audit.Report {
	t.Helper()
	report, err := audit.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// violated names the invariants of which violations were found.
func violated(r audit.Report) string {
	var ids []string
	for _, i := range r.Invariants {
		if i.Found > 0 {
			ids = append(ids, i.ID)
		}
	}
	return strings.Join(ids, " ")
}
