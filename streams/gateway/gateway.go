// Package gateway is the way in by HTTP: it takes deliveries from whoever has a token of role publisher and writes them to
// their feed's topic, and it shows what became of them.
//
// It keeps no table and no state: a delivery that is answered with 202 is in Kafka, on all replicas in sync, and what becomes
// of it is decided by ingest as for every other. One that is answered with anything else may be sent again under its id: a
// repeat does no harm. Tenant, connector and account are the token's and the registration's, never the event's.
//
// A request is read as the CloudEvents HTTP binding says, in its three modes, by turning it into the record that the same event
// would be on Kafka and decoding that: there is one reader of events (package delivery), and what it refuses is refused here,
// before anything is written. The SDK's own binding takes the first of two equal headers and does not decode percent signs.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/token"
)

// Path is where deliveries are posted; below it each is found by its replay key.
const Path = "/v1/deliveries"

// Config has the choices of a Stage; its zero value works.
type Config struct {
	Rate     float64       // requests a second that one token may make for long; default 100
	Burst    int           // and at once; default 200
	Parallel int           // deliveries of one token in hand at a time; default 8
	Body     time.Duration // how long a request may take to arrive; default 1 min
	Produce  time.Duration // how long Kafka may take to answer; default 10 s
	Memory   int64         // bytes of all bodies in hand at a time; default 256 MiB
}

const (
	headerTimeout = 5 * time.Second
	headerBytes   = 16 << 10
	idleTimeout   = 2 * time.Minute
	// maxWait bounds how long a client can wait for an outcome.
	maxWait = 30 * time.Second
	// shutdownTimeout is what is left for answers in hand when the process ends.
	shutdownTimeout = 15 * time.Second
)

// A Stage is the gateway of one process. Any number may run.
type Stage struct {
	pool     *pgxpool.Pool
	cluster  kafka.Cluster
	listener net.Listener
	cfg      Config
	log      *slog.Logger

	kafka    *kgo.Client // while it runs
	limits   limits
	memory   *semaphore.Weighted
	stopping chan struct{} // closed when the process ends: nobody waits for outcomes any more
}

// New returns a stage that Run starts on the listener. The pool's login reads as postgres.Read and postgres.Audit.
func New(pool *pgxpool.Pool, cluster kafka.Cluster, listener net.Listener, cfg Config, log *slog.Logger) *Stage {
	cfg.Rate = cmp.Or(cfg.Rate, 100)
	cfg.Burst = cmp.Or(cfg.Burst, 200)
	cfg.Parallel = cmp.Or(cfg.Parallel, 8)
	cfg.Body = cmp.Or(cfg.Body, time.Minute)
	cfg.Produce = cmp.Or(cfg.Produce, 10*time.Second)
	cfg.Memory = max(cmp.Or(cfg.Memory, 256<<20), delivery.MaxInline)
	return &Stage{pool: pool, cluster: cluster, listener: listener, cfg: cfg, log: log.With("stage", "gateway"),
		limits: newLimits(cfg), memory: semaphore.NewWeighted(cfg.Memory), stopping: make(chan struct{})}
}

// Run serves until ctx is done; it finishes the answers in hand, then returns nil.
func (s *Stage) Run(ctx context.Context) error {
	var err error
	if s.kafka, err = s.cluster.NewPublisher(kgo.MaxBufferedBytes(int(s.cfg.Memory)), kgo.MaxBufferedRecords(2*delivery.MaxBatch)); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	defer s.kafka.Close()
	defer context.AfterFunc(ctx, func() { close(s.stopping) })()
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.cfg.Body,
		WriteTimeout:      s.cfg.Body + s.cfg.Produce + maxWait + 10*time.Second,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	if err := Serve(ctx, srv, s.listener); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// Serve answers requests on the listener until ctx is done, and then finishes the answers in hand.
func Serve(ctx context.Context, srv *http.Server, listener net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := srv.Shutdown(last); err != nil {
			_ = srv.Close() // a client that does not read ends here
		}
		return nil
	})
	return g.Wait()
}

// ServeHTTP answers one request.
func (s *Stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store") // answers are one bearer's
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := s.answer(w, r); err != nil {
		s.refuse(w, r, err)
	}
}

// answer finds what is asked. Replay keys hold slashes and dots of all kinds, percent-encoded, so the path is looked at as it
// was sent, and never cleaned.
func (s *Stage) answer(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.EscapedPath()
	key, one := strings.CutPrefix(path, Path+"/")
	switch {
	case path == Path && r.Method == http.MethodPost:
		who, err := s.authorize(r, token.Deliver)
		if err != nil {
			return err
		}
		return s.deliver(w, r, who)
	case one && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		who, err := s.authorize(r, token.ReadReceipts)
		if err != nil {
			return err
		}
		return s.receipt(w, r, who, key)
	case path == Path:
		w.Header().Set("Allow", http.MethodPost)
		return problem(codeMethod, "deliveries are posted")
	case one:
		w.Header().Set("Allow", http.MethodGet+", "+http.MethodHead)
		return problem(codeMethod, "a delivery is read; it is sent to "+Path)
	}
	return problem(codeNotFound, "there is "+Path)
}

// authorize finds who asks, and whether they may. A request has one token, in one header, or none.
func (s *Stage) authorize(r *http.Request, need token.Access) (token.Bearer, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return token.Bearer{}, problem(codeUnauthorized, "")
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	secret, err := token.Parse(text)
	if err != nil || !strings.EqualFold(scheme, "Bearer") {
		return token.Bearer{}, problem(codeUnauthorized, "")
	}
	var who token.Bearer
	err = postgres.AsTenant(r.Context(), s.pool, postgres.Read, "", func(tx pgx.Tx) (err error) {
		who, err = token.Identify(r.Context(), tx, secret, time.Now())
		return err
	})
	switch {
	case errors.Is(err, token.ErrRefused):
		return token.Bearer{}, problem(codeUnauthorized, "")
	case err != nil:
		return token.Bearer{}, err
	case !who.Role.May(need):
		return token.Bearer{}, problem(codeRole, fmt.Sprintf("a token of role %s may not %s", who.Role, need))
	}
	if wait := s.limits.take(who.Token, time.Now()); wait > 0 {
		return token.Bearer{}, tooMany(wait)
	}
	return who, nil
}
