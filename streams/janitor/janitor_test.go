package janitor_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/janitor"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func TestMain(m *testing.M) { pipeline.Main(m) }

const acme = `
feed: acme
tenant: t1
connector: c1
account: ACC-1
accepts: {topics: [deliveries], source: /acme}
format: {kind: json, rows: ".[]"}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty}
`

// deliver runs deliveries through all stages, one record a batch, and stops them.
func deliver(t *testing.T, n int) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(t, pipeline.Options{MaxRecords: 1})
	p.Topics(streams.Deliveries)
	workers := []*pipeline.Worker{p.Start(pipeline.Ingest), p.Start(pipeline.Relay), p.Start(pipeline.Project)}
	spec, err := feed.ParseYAML("feed.yaml", []byte(acme))
	if err != nil {
		t.Fatal(err)
	}
	p.ApplyFeed(spec)
	var records []*kgo.Record
	for i := range n {
		records = append(records, pipeline.Event(streams.Deliveries, "k", fmt.Appendf(nil, `[{"sku": "A-%d", "rev": %d, "qty": 1}]`, i%5, i),
			map[string]string{"id": fmt.Sprint("D-", i), "source": "/acme", "time": "2026-03-02T08:00:00Z"}))
	}
	p.Feed(rand.New(rand.NewPCG(3, 5)), records...)
	p.SettleOffers()
	for _, w := range workers {
		w.Stop()
	}
	return p
}

func ask[T any](t *testing.T, p *pipeline.Pipeline, question string) (answer T) {
	t.Helper()
	err := postgres.InTx(t.Context(), p.Pool, postgres.Inspect, func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), question).Scan(&answer) })
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// sweep lets two janitors at once do what is due at a time.
func sweep(t *testing.T, p *pipeline.Pipeline, now time.Time) {
	t.Helper()
	store := openStore(t, p)
	var g errgroup.Group
	for range 2 {
		s := janitor.New(p.Pool, janitor.Config{Archive: store, Now: func() time.Time { return now }}, slog.New(slog.DiscardHandler))
		g.Go(func() error { return s.Sweep(t.Context()) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	r, err := audit.Run(t.Context(), audit.Inputs{Pool: p.Pool, Cluster: p.Cluster, Archive: p.Archive, Mapper: p.Mapper})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range r.Invariants {
		for _, v := range i.Violations {
			t.Errorf("%s: %+v", i.ID, v)
		}
	}
}

func TestTheJournalShrinksAndStillTiles(t *testing.T) {
	p := deliver(t, 20)
	const intervals, lanes = "SELECT count(*)::int FROM audit_v1.commit_journal", "SELECT count(DISTINCT lane)::int FROM audit_v1.commit_journal"
	before, now := ask[int](t, p, intervals), time.Now()
	sweep(t, p, now) // nothing is old yet
	if got := ask[int](t, p, intervals); got != before {
		t.Fatalf("got %d intervals of %d: the newest are gone", got, before)
	}
	sweep(t, p, now.Add(time.Minute)) // nothing is due
	sweep(t, p, now.Add(2*time.Hour))
	sweep(t, p, now.Add(4*time.Hour)) // nothing is left
	if got, want := ask[int](t, p, intervals), ask[int](t, p, lanes); got != want || before < 2*want {
		t.Errorf("got %d intervals of %d, want one for each of %d lanes", got, before, want)
	}
	holds(t, p)
	for _, s := range []pipeline.Stage{pipeline.Ingest, pipeline.Relay, pipeline.Project} {
		p.Start(s)
	}
	p.Publish(pipeline.Event(streams.Deliveries, "k", []byte(`[{"sku": "A-1", "rev": 99, "qty": 1}]`),
		map[string]string{"id": "LATER", "source": "/acme", "time": "2026-03-02T08:00:00Z"}))
	p.SettleOffers()
	holds(t, p)
}

func openStore(t *testing.T, p *pipeline.Pipeline) archive.Store {
	t.Helper()
	store, err := archive.OpenFiles(p.Folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // what was removed is
	return store
}

func names(t *testing.T, s archive.Store) (names []string) {
	t.Helper()
	for name, err := range s.Names(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestObjectsThatNothingNeedsAreCollectedAndNoOthers(t *testing.T) {
	p := deliver(t, 8)
	store := openStore(t, p)
	needed := names(t, store)
	lane := ask[string](t, p, "SELECT format('%s/%s', topic_id, partition) FROM audit_v1.position WHERE topic = 'deliveries' AND next > 1 ORDER BY partition LIMIT 1")
	next := ask[int64](t, p, "SELECT next FROM audit_v1.position WHERE topic = 'deliveries' AND next > 1 ORDER BY partition LIMIT 1")
	digest := strings.Repeat("0", 64)
	put := func(name string) string {
		t.Helper()
		if err := store.Put(t.Context(), name, strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
		return name
	}
	// A batch that was tried and died: its attempt after that spanned other offsets.
	orphans := []string{
		put(fmt.Sprintf("t1/%s/0-%d/%s", lane, next+5, digest)),
		put(fmt.Sprintf("%%2Ehidden/%s/0-0/%s", lane, digest)),
		put(fmt.Sprintf("t1/%s/%d-%d/%s", lane, next-1, next+7, digest)),
	}
	// A batch in hand, a topic that nobody knows, and what is no object of ours.
	kept := []string{
		put(fmt.Sprintf("t1/%s/%d-%d/%s", lane, next, next, digest)),
		put(fmt.Sprintf("t1/%s/%d-%d/%s", lane, next+1, next+1, digest)),
		put("t1/8a3f0000-0000-4000-8000-000000000001/0/0-0/" + digest),
		put("t1/notes"),
	}
	sweep(t, p, time.Now())
	want := slices.Sorted(slices.Values(slices.Concat(needed, kept)))
	if got := names(t, store); !slices.Equal(got, want) {
		t.Errorf("got objects %v, want %v; %v are orphans", got, want, orphans)
	}
	holds(t, p)
}

// Retention of artifacts is a feed's: what is old goes, with a receipt and after its objects, and history, receipts and the view
// stay. What an open question of quarantine needs stays too, and so does what no feed speaks of.
func TestExpiredArtifactsGoAndObservationsStay(t *testing.T) {
	p := deliver(t, 12)
	keep := func(artifacts string) {
		t.Helper()
		spec, err := feed.ParseYAML("feed.yaml", []byte(acme+artifacts))
		if err != nil {
			t.Fatal(err)
		}
		p.ApplyFeed(spec)
	}
	workers := []*pipeline.Worker{p.Start(pipeline.Ingest), p.Start(pipeline.Relay), p.Start(pipeline.Project)}
	keep("retention: {artifacts: 30d}\n")
	// A contradiction, about which nobody has decided: it and what it contradicts are evidence of an open question.
	contradicted := p.Publish(pipeline.Event(streams.Deliveries, "k", []byte(`[{"sku": "A-0", "rev": 0, "qty": 99}]`),
		map[string]string{"id": "D-0", "source": "/acme", "time": "2026-03-02T08:00:00Z"}))[0]
	p.SettleOffers()
	for _, w := range workers {
		w.Stop()
	}
	const observations = "SELECT count(*)::int FROM audit_v1.observation"
	before, offers, now := ask[int](t, p, observations), p.Offers("t1"), time.Now()
	store := openStore(t, p)
	objects := len(names(t, store))

	sweep(t, p, now.Add(29*24*time.Hour))
	if got := len(names(t, store)); got != objects {
		t.Fatalf("got %d of %d objects after 29 days, want all", got, objects)
	}
	sweep(t, p, now.Add(31*24*time.Hour))
	sweep(t, p, now.Add(31*24*time.Hour+2*time.Hour)) // one of two janitors may have looked for objects before the other let them go
	stored := ask[int](t, p, "SELECT count(*)::int FROM audit_v1.artifact_object WHERE state = 'stored'")
	if got := len(names(t, store)); got != stored || got >= objects {
		t.Errorf("got %d objects of %d, want the %d whose rows say stored", got, objects, stored)
	}
	if got := ask[int](t, p, "SELECT count(*)::int FROM audit_v1.pruning AS p JOIN audit_v1.artifact_object AS a ON (a.tenant, a.pruning) = (p.tenant, p.id) WHERE p.kind = 'artifacts' AND a.state = 'expired'"); got != objects-stored {
		t.Errorf("got receipts of %d objects, want those of %d", got, objects-stored)
	}
	needed := ask[int](t, p, fmt.Sprintf(`SELECT count(*)::int FROM audit_v1.artifact AS a JOIN audit_v1.position AS l ON (l.topic_id, l.partition) = (a.topic_id, a.partition)
	                                       WHERE a.state = 'stored' AND l.topic = 'deliveries'
	                                         AND ((a.partition, a."offset") = (%d, %d)
	                                           OR (l.lane, a."offset") IN (SELECT o.lane, o."offset" FROM audit_v1.outcome AS o WHERE o.event_id = 'D-0' AND o.outcome = 'accepted'))`, contradicted.Partition, contradicted.Offset))
	if needed != 2 {
		t.Errorf("got %d of the 2 payloads of the open question", needed)
	}
	if got := ask[int](t, p, "SELECT count(*)::int FROM audit_v1.artifact_object AS a JOIN audit_v1.position AS l ON (l.topic_id, l.partition) = (a.topic_id, a.partition) WHERE l.topic = 'commands' AND a.state <> 'stored'"); got != 0 {
		t.Errorf("%d commands have expired", got)
	}
	if got := ask[int](t, p, observations); got != before || len(p.Offers("t1")) != len(offers) {
		t.Errorf("got %d observations and %d offers, want %d and %d", got, len(p.Offers("t1")), before, len(offers))
	}
	holds(t, p)
}
