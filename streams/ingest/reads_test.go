package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// readers are the searches, comparisons and questions that readers of a tenant can ask, each about the n-th record.
var readers = map[string]func(ctx context.Context, tx pgx.Tx, n int) (any, error){
	"offers": func(ctx context.Context, tx pgx.Tx, n int) (any, error) {
		return view.Offers(ctx, tx, view.Filter{Account: "ACC-1", Record: fmt.Sprint("R-", n)})
	},
	"offers of an item": func(ctx context.Context, tx pgx.Tx, n int) (any, error) {
		return view.Offers(ctx, tx, view.Filter{Item: fmt.Sprint("R-", n), IncludeDeleted: true})
	},
	"items compared": func(ctx context.Context, tx pgx.Tx, n int) (any, error) {
		return view.Items(ctx, tx, fmt.Sprint("R-", n), 10)
	},
	"history": func(ctx context.Context, tx pgx.Tx, n int) (any, error) {
		list, err := history.List(ctx, tx, history.Filter{Record: fmt.Sprint("R-", n), Limit: 10})
		docs := make([]history.Document, len(list))
		for i := range list {
			docs[i] = list[i].Document()
		}
		return docs, err
	},
	"known then": func(ctx context.Context, tx pgx.Tx, n int) (any, error) {
		k, err := tick.At(ctx, tx, time.Now())
		if err != nil {
			return nil, err
		}
		return view.Known(ctx, tx, view.Filter{Record: fmt.Sprint("R-", n)}, k, nil)
	},
	"ever shown": func(ctx context.Context, tx pgx.Tx, n int) (any, error) {
		return view.EverShown(ctx, tx, offer.Key{Tenant: "t1", Account: "ACC-1", Record: fmt.Sprint("R-", n)}.ID())
	},
}

// lacks names what an answer does not say of each claim in it: when it held, when it was fetched, whose it is, and that nobody has
// verified it. Items are counts, and no claims.
func lacks(t *testing.T, answer any) (missing []string) {
	t.Helper()
	if _, ok := answer.([]view.ItemDocument); ok {
		return nil
	}
	text, err := json.Marshal(answer)
	var docs []map[string]any
	if err == nil {
		err = json.Unmarshal(text, &docs)
	}
	if err != nil || len(docs) == 0 {
		t.Fatalf("got %s and error %v, want an answer", text, err)
	}
	for _, d := range docs {
		for _, name := range []string{"observed_at", "retrieved_at", "feed", "supplier_account", "delivery"} {
			if s, _ := d[name].(string); s == "" {
				missing = append(missing, name)
			}
		}
		if d["verification"] != "unverified" {
			missing = append(missing, "verification")
		}
	}
	return missing
}

func TestS_000_55_S_000_57_ReadsChangeNothingAndSayWhatTheyStandOn(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.Feed(s.rng, delivery("D1", rows(5, 1)), delivery("D2", row("R-1", 2, "7")))
	s.SettleOffers()
	s.ticks()

	// Readers have a way of their own, which knows whom they call.
	var mu sync.Mutex
	called := map[string]bool{}
	cfg := s.Pool.Config()
	home := net.JoinHostPort(cfg.ConnConfig.Host, fmt.Sprint(cfg.ConnConfig.Port))
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		called[addr] = true
		mu.Unlock()
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ends := func() (n int64) {
		offsets, err := kadm.NewClient(s.Client).ListEndOffsets(t.Context(), s.Cluster.Topic(streams.Deliveries), s.Cluster.Topic(streams.Commands),
			s.Cluster.Topic(streams.Replays), s.Cluster.Topic(streams.Observations), s.Cluster.Topic(streams.CurrentOffers), s.Cluster.Topic(streams.DeliveryResults))
		if err != nil {
			t.Fatal(err)
		}
		offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
		return n
	}
	records, stored := ends(), s.stored()
	const each = 200
	for what, read := range readers {
		for n := range each {
			err := postgres.AsTenant(t.Context(), pool, postgres.Read, "t1", func(tx pgx.Tx) error {
				answer, err := read(t.Context(), tx, n%5)
				if err != nil {
					return err
				}
				if missing := lacks(t, answer); len(missing) > 0 {
					return fmt.Errorf("record %d: the answer lacks %q", n, missing)
				}
				var silent bool // a transaction has an id once it writes
				if err := tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned() IS NULL").Scan(&silent); err != nil || silent {
					return err
				}
				return fmt.Errorf("record %d: it wrote", n)
			})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	if got := ends(); got != records {
		t.Errorf("the topics end at %d records together, before the reads at %d", got, records)
	}
	if got := s.stored(); got != stored {
		t.Errorf("got %s stored, before the reads %s", got, stored)
	}
	if len(called) != 1 || !called[home] {
		t.Errorf("the readers have called %v, want %s alone", called, home)
	}
}
