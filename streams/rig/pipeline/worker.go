package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/project"
	"github.com/offerlog/offerlog/streams/relay"
)

// A Stage names what a Worker runs.
type Stage string

// Stages, in the order in which data moves.
const (
	Ingest  Stage = "ingest"
	Relay   Stage = "relay"
	Project Stage = "project"
)

// A Worker is a stage that runs, with a pool of its own.
type Worker struct {
	p        *Pipeline
	name     string
	run      func(context.Context) error
	wake     func() // of a relay
	pool     *pgxpool.Pool
	line     *line
	stop     context.CancelFunc
	killed   atomic.Bool
	done     chan struct{}
	warnings atomic.Int64
}

// Start runs a stage.
func (p *Pipeline) Start(s Stage) *Worker {
	p.t.Helper()
	if s == Ingest {
		return p.StartIngest(ingest.Config{}, p.Archive)
	}
	w := p.worker(string(s))
	log := w.logger()
	if s == Relay {
		stage := relay.New(w.pool, p.Cluster, relay.Config{}, log)
		w.run, w.wake = stage.Run, stage.Wake
	} else {
		w.run = project.New(w.pool, p.Cluster, project.Config{MaxRecords: p.opts.MaxRecords, Worker: w.name, Committed: p.wake}, log).Run
	}
	return p.start(w)
}

// StartAll runs one of each.
func (p *Pipeline) StartAll() {
	p.t.Helper()
	for _, s := range []Stage{Ingest, Relay, Project} {
		p.Start(s)
	}
}

// StartIngest runs ingest with its name in the journal or its batch size, or over another archive: one that waits, or fails.
func (p *Pipeline) StartIngest(cfg ingest.Config, arch ingest.Archive) *Worker {
	p.t.Helper()
	w := p.worker(string(Ingest))
	cfg.Topics, cfg.Committed = p.Inputs, p.wake
	if cfg.Worker == "" {
		cfg.Worker = w.name
	}
	if cfg.MaxRecords == 0 {
		cfg.MaxRecords = p.opts.MaxRecords
	}
	w.run = ingest.New(w.pool, p.Cluster, arch, mapper(), cfg, w.logger()).Run
	return p.start(w)
}

func (p *Pipeline) worker(stage string) *Worker {
	p.t.Helper()
	p.mu.Lock()
	w := &Worker{p: p, name: fmt.Sprintf("%s-%d", stage, len(p.workers)+1), line: &line{}, done: make(chan struct{})}
	p.mu.Unlock()
	cfg := p.Pool.Config()
	cfg.ConnConfig.DialFunc = w.line.dial
	var err error
	if w.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		p.t.Fatal(err)
	}
	return w
}

func (p *Pipeline) start(w *Worker) *Worker {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	p.mu.Lock()
	p.workers = append(p.workers, w)
	p.mu.Unlock()
	go func() {
		defer close(w.done)
		defer w.pool.Close()
		if err := w.run(ctx); err != nil && !w.killed.Load() {
			p.fail(fmt.Errorf("worker %s failed: %w", w.name, err))
		}
	}()
	return w
}

// wake tells the relays of the pipeline that something waits for them.
func (p *Pipeline) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.wake != nil {
			w.wake()
		}
	}
}

// Stop ends the stage as a signal would: it finishes the batch in hand.
func (w *Worker) Stop() {
	w.stop()
	<-w.done
}

// Kill ends the stage as far as that goes within a process: its connections to PostgreSQL are cut in the middle of whatever
// they do and it gets no new ones, so nothing of it commits any more. What its clients of Kafka have in hand they still send,
// and they leave their groups.
func (w *Worker) Kill() {
	w.killed.Store(true)
	w.line.cut()
	w.Stop()
}

// Warnings counts what the stage logged as a warning or an error.
func (w *Worker) Warnings() int64 { return w.warnings.Load() }

// stopAll ends what still runs, and the test with it if a stage has failed.
func (p *Pipeline) stopAll() {
	p.mu.Lock()
	workers := slices.Clone(p.workers)
	p.mu.Unlock()
	for _, w := range workers {
		w.stop()
	}
	for _, w := range workers {
		<-w.done
	}
	if err := context.Cause(p.failed); err != nil {
		p.t.Error(err)
	}
	p.fail(nil)
}

func (w *Worker) logger() *slog.Logger {
	return slog.New(counter{w.p.log.Handler(), &w.warnings}).With("worker", w.name)
}

// A counter counts warnings and errors on their way.
type counter struct {
	slog.Handler
	n *atomic.Int64
}

// Enabled implements slog.Handler: a warning is counted whether anybody reads it or not.
func (c counter) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || c.Handler.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (c counter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		c.n.Add(1)
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c counter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counter{c.Handler.WithAttrs(attrs), c.n}
}

// WithGroup implements slog.Handler.
func (c counter) WithGroup(name string) slog.Handler { return counter{c.Handler.WithGroup(name), c.n} }

// A line is a worker's way to PostgreSQL.
type line struct {
	mu    sync.Mutex
	conns []net.Conn
	dead  bool
}

var errCut = errors.New("the worker was killed")

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, errors.Join(errCut, conn.Close())
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, conn := range l.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset and no goodbye
		}
		_ = conn.Close()
	}
}
