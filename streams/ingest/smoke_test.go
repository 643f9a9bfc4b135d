package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestSmoke(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dsn := rig.Database(t)
	pool, err := postgres.Open(ctx, dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	addr, _ := rig.FakeKafka(t)
	cluster := kafka.Cluster{Brokers: []string{addr}, Prefix: "x."}
	cl, err := cluster.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	plan, err := kafka.Plan(ctx, cl, cluster.Specs(streams.OwnTopics(3), []string{"deliveries"}, 3))
	if err != nil {
		t.Fatal(err)
	}
	if err := kafka.Apply(ctx, cl, plan); err != nil {
		t.Fatal(err)
	}
	files, err := archive.OpenFiles(filepath.Join(t.TempDir(), "archive"))
	if err != nil {
		t.Fatal(err)
	}
	arch := archive.New(files, archive.NewPostgresKeys(pool, archive.OpenKeyring(make([]byte, 32))))
	mapper := mapping.NewChild(mapping.Config{})
	defer mapper.Close()
	st := ingest.New(pool, cluster, arch, mapper, ingest.Config{Topics: []string{"deliveries"}}, slog.Default())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	spec, err := feed.ParseYAML("f", []byte(`feed: acme-eu
tenant: t1
connector: acme-eu
account: ACC-1
accepts: {topics: [deliveries], source: /acme-eu/export}
order: observed_at
mapping:
  version: 1
  fields: {source_record: .sku, price: .price, currency: .cur, item: {mpn: .mpn}}
`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := spec.JSON()
	head := func(kv ...string) (h []kgo.RecordHeader) {
		for i := 0; i < len(kv); i += 2 {
			h = append(h, kgo.RecordHeader{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return h
	}
	rec := &kgo.Record{Topic: "x.commands", Value: body, Headers: head("ce_specversion", "1.0", "ce_id", "c1", "ce_source", "/cli", "ce_type", streams.FeedApplyType, "ce_tenant", "t1", "content-type", "application/json")}
	if err := cl.ProduceSync(ctx, rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for st.Stats().Records < 1 {
		time.Sleep(10 * time.Millisecond)
	}
	start := time.Now()
	for i := range 100 {
		for range 2 {
			r := &kgo.Record{Topic: "x.deliveries", Value: []byte(`{"sku":"A-1","mpn":"A-1","price":"10.50","cur":"EUR"}`), Headers: head("ce_specversion", "1.0", "ce_id", fmt.Sprint("E", i), "ce_source", "/acme-eu/export", "ce_type", streams.DeliveryType, "ce_time", "2025-03-01T10:00:00Z", "content-type", "application/json")}
			cl.Produce(ctx, r, nil)
		}
	}
	cl.Produce(ctx, &kgo.Record{Topic: "x.deliveries", Value: []byte("nonsense")}, nil)
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for st.Stats().Records < 202 {
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	fmt.Println(st.Stats(), time.Since(start))
	_ = postgres.InTx(ctx, pool, postgres.Inspect, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, "select outcome, reason, count(*), sum(saved), sum(old), sum(ambiguous_order), min(artifact_id) from audit_v1.outcome group by 1,2")
		v, err := pgx.CollectRows(rows, pgx.RowToMap)
		fmt.Println(v, err)
		return err
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
