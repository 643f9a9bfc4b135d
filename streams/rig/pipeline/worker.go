package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
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
	warnings *warnings
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
	w.run = ingest.New(w.pool, p.Cluster, arch, p.Mapper, cfg, w.logger()).Run
	return p.start(w)
}

func (p *Pipeline) worker(stage string) *Worker {
	p.t.Helper()
	p.mu.Lock()
	w := &Worker{p: p, name: fmt.Sprintf("%s-%d", stage, len(p.workers)+1), line: &line{}, done: make(chan struct{}), warnings: &warnings{}}
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

// Warnings lists what the stage has logged as warnings and errors.
func (w *Worker) Warnings() []string {
	w.warnings.mu.Lock()
	defer w.warnings.mu.Unlock()
	return slices.Clone(w.warnings.lines)
}

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
	if err := context.Cause(p.failed); err != nil && !errors.Is(err, context.Canceled) { // which an earlier stop has left
		p.t.Error(err)
	}
	p.fail(nil)
}

func (w *Worker) logger() *slog.Logger {
	h := slog.NewMultiHandler(w.p.log.Handler(), slog.NewTextHandler(w.warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return slog.New(h).With("worker", w.name)
}

// warnings keeps lines of a log.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// Write implements io.Writer: a handler writes one line at a time.
func (w *warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, strings.TrimSpace(string(line)))
	return len(line), nil
}

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
