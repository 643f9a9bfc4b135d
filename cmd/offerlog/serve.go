package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams/gateway"
)

// A server answers /livez, /readyz and /metrics. It only reads.
type server struct {
	listener net.Listener
	kafka    *kgo.Client
	pool     *pgxpool.Pool
	archive  archive.Store // nil where this process writes none
	metrics  *prometheus.Registry
}

// Run serves until ctx is done, and then finishes the answers in hand.
func (s *server) Run(ctx context.Context) error {
	srv := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	return gateway.Serve(ctx, srv, s.listener)
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}))
	return mux
}

// An obstacle is one reason not to be ready.
type obstacle struct {
	What   string `json:"what"` // kafka, postgres, archive, or a lane as topic/partition
	Reason string `json:"reason"`
}

func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	obstacles := s.obstacles(r.Context())
	w.Header().Set("Content-Type", "application/json")
	if len(obstacles) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	answer := struct {
		Ready    bool       `json:"ready"`
		NotReady []obstacle `json:"not_ready,omitempty"`
	}{len(obstacles) == 0, obstacles}
	_ = json.NewEncoder(w).Encode(answer) // a client that has left needs no answer
}

// obstacles asks every server at the same time, for at most three seconds.
func (s *server) obstacles(ctx context.Context) []obstacle {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	found := make([][]obstacle, 3)
	var g errgroup.Group
	g.Go(func() error {
		if err := kafka.Check(ctx, s.kafka); err != nil {
			found[0] = []obstacle{{"kafka", explain(err).Error()}}
		}
		return nil
	})
	g.Go(func() error {
		halts, err := halted(ctx, s.pool)
		if err != nil {
			halts = []obstacle{{"postgres", explain(err).Error()}}
		}
		found[1] = halts
		return nil
	})
	g.Go(func() error {
		if s.archive == nil {
			return nil
		}
		if err := s.archive.Ready(ctx); err != nil {
			found[2] = []obstacle{{"archive", err.Error()}}
		}
		return nil
	})
	_ = g.Wait() // none of them returns one
	var all []obstacle
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

// halted lists the lanes that have stopped.
func halted(ctx context.Context, pool *pgxpool.Pool) (halts []obstacle, err error) {
	err = inspect(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT p.topic || '/' || p.partition, h.reason
			  FROM audit_v1.halt AS h
			  JOIN audit_v1.position AS p USING (lane)
			 ORDER BY 1, 2`)
		if err == nil {
			halts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[obstacle])
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list halted lanes: %w", err)
	}
	return halts, nil
}

// inspect runs f with what can be checked from outside: schema audit_v1, all tenants.
func inspect(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	return postgres.InTx(ctx, pool, postgres.Inspect, f)
}
