// Package relay carries events from the outbox to their topics, in the order of their lanes and once each.
//
// Each lane has its own transactional producer. One Kafka transaction holds the next events of the lane and, in the topic
// offerlog-relay-cursor, the number of the last: both are there for committed readers, or neither. So a crash at any
// moment leaves a log that says itself where to go on. A relay that starts on a lane first fences whoever had it, so that
// nothing can be added behind its back, and then reads where the log stands. PostgreSQL holds a copy of the cursor, for
// pruning and for those who wait, and to notice a log or a database that has lost something: such a lane is halted, and
// the others go on.
//
// Processes share the lanes by leases. Those only keep two from working against each other: a holder that lost its lease
// without noticing is fenced by the broker.
package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
)

// Config holds the choices; the zero value works.
type Config struct {
	Holder    string        // names this process in leases; made of host, process and chance where empty
	Lease     time.Duration // how long a lane stays with a process that has gone: 10 s
	Poll      time.Duration // between two looks for new events, where nobody calls Wake: 50 ms
	MaxEvents int           // of one transaction, where nothing fails: 10,000
	Prune     time.Duration // between two prunings of the outbox: 2 s
	SlotBytes int64         // of a slot of the outbox, from which on the next one is used: 64 MiB
}

func (c Config) withDefaults() Config {
	if c.Holder == "" {
		host, _ := os.Hostname() // the rest of the name is enough
		c.Holder = fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8])
	}
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.Poll = cmp.Or(c.Poll, 50*time.Millisecond)
	c.MaxEvents = cmp.Or(c.MaxEvents, 10_000)
	c.Prune = cmp.Or(c.Prune, 2*time.Second)
	c.SlotBytes = cmp.Or(c.SlotBytes, 64<<20)
	return c
}

// Stats are counts since the start of the process, and what stands now.
type Stats struct {
	Events       int64          // published
	Transactions int64          // committed
	Restarts     int64          // of a lane from the fence, after an error
	Lanes        int            // held now
	Halted       map[int]string // reason by lane, whoever halted it
}

// A Stage relays the lanes that it gets hold of.
type Stage struct {
	pool    *pgxpool.Pool
	cluster kafka.Cluster
	cfg     Config
	log     *slog.Logger
	wake    chan struct{}

	events, transactions, restarts atomic.Int64
	held                           atomic.Int64
	halted                         atomic.Pointer[map[int]string]

	producerOpts []kgo.Opt // added by tests: faults of the network
}

// New returns a stage that works once it is run.
func New(pool *pgxpool.Pool, cluster kafka.Cluster, cfg Config, log *slog.Logger) *Stage {
	cfg = cfg.withDefaults()
	return &Stage{pool: pool, cluster: cluster, cfg: cfg, log: log.With("stage", "relay"), wake: make(chan struct{}, 1)}
}

// Wake says that there may be new events, so that they need not wait for the next look. It never waits.
func (s *Stage) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Stats returns what was counted so far.
func (s *Stage) Stats() Stats {
	st := Stats{Events: s.events.Load(), Transactions: s.transactions.Load(), Restarts: s.restarts.Load(), Lanes: int(s.held.Load())}
	if halted := s.halted.Load(); halted != nil {
		st.Halted = maps.Clone(*halted)
	}
	return st
}

// Run relays until ctx is done; it finishes the transactions in hand, gives its lanes back, and returns nil.
func (s *Stage) Run(ctx context.Context) error {
	crew := &crew{workers: map[int]*worker{}}
	defer crew.running.Wait() // each worker ends with ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		pruned   = time.Now()
		inReach  = true
		interval = time.NewTicker(s.cfg.Poll)
	)
	defer interval.Stop()
	for {
		err := s.tend(ctx, crew)
		if err == nil && time.Since(pruned) >= s.cfg.Prune {
			pruned = time.Now()
			err = s.prune(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			inReach = true
		case !postgres.OutOfReach(err):
			return fmt.Errorf("relay: %w", err)
		case inReach:
			s.log.WarnContext(ctx, "PostgreSQL is out of reach", "error", err)
			inReach = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-interval.C:
		case <-s.wake:
		}
	}
}

// A crew is the workers of this process.
type crew struct {
	workers map[int]*worker // by lane
	running sync.WaitGroup
	renewed time.Time
}

// tend renews leases, wakes the lanes that have something to publish, and takes one that nobody relays. One at a time, so
// that processes which start together share the lanes.
func (s *Stage) tend(ctx context.Context, crew *crew) error {
	maps.DeleteFunc(crew.workers, func(_ int, w *worker) bool { return w.ended.Load() })
	if time.Since(crew.renewed) >= s.cfg.Lease/3 {
		if err := s.renew(ctx, crew); err != nil {
			return err
		}
	}
	var backlog []outbox.Backlog
	var leases []outbox.Lease
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		leases = nil
		backlog, err = outbox.Behind(ctx, tx)
		if err == nil && slices.ContainsFunc(backlog, func(b outbox.Backlog) bool { return b.Free }) {
			leases, err = outbox.Claim(ctx, tx, s.cfg.Holder, s.cfg.Lease, slices.Collect(maps.Keys(crew.workers)), 1)
		}
		return err
	})
	if err != nil {
		return err
	}
	halted := map[int]string{}
	for _, b := range backlog {
		if b.HaltReason != "" {
			halted[b.Lane] = b.HaltReason
		} else if w := crew.workers[b.Lane]; w != nil {
			w.notify()
		}
	}
	s.halted.Store(&halted)
	for _, lease := range leases {
		s.log.DebugContext(ctx, "took a lane", "lane", lease.Lane, "epoch", lease.Epoch)
		laneCtx, stop := context.WithCancel(ctx)
		w := &worker{Stage: s, lease: lease, work: make(chan struct{}, 1), stop: stop, log: s.log.With("lane", lease.Lane), limit: int64(s.cfg.MaxEvents)}
		crew.workers[lease.Lane] = w
		crew.running.Go(func() {
			defer w.ended.Store(true)
			defer stop()
			w.run(laneCtx)
		})
	}
	s.held.Store(int64(len(crew.workers)))
	return nil
}

// renew prolongs the leases and stops the lanes that are another's by now.
func (s *Stage) renew(ctx context.Context, crew *crew) error {
	leases := make([]outbox.Lease, 0, len(crew.workers))
	for _, w := range crew.workers {
		leases = append(leases, w.lease)
	}
	if len(leases) > 0 {
		var kept []int
		err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
			kept, err = outbox.Renew(ctx, tx, s.cfg.Holder, leases, s.cfg.Lease)
			return err
		})
		if err != nil {
			return err
		}
		for id, w := range crew.workers {
			if !slices.Contains(kept, id) && !w.ended.Load() {
				w.log.InfoContext(ctx, "another process has taken the lane")
				w.stop()
			}
		}
	}
	crew.renewed = time.Now()
	return nil
}

func (s *Stage) prune(ctx context.Context) error {
	var p outbox.Pruned
	err := postgres.InTx(ctx, s.pool, postgres.Janitor, func(tx pgx.Tx) (err error) {
		p, err = outbox.Prune(ctx, tx, s.cfg.SlotBytes)
		return err
	})
	if errors.Is(err, outbox.ErrBusy) {
		return nil // live work goes first
	}
	if p.Emptied > 0 || p.Moved {
		s.log.DebugContext(ctx, "pruned the outbox", "slots_emptied", p.Emptied, "ring_moved", p.Moved)
	}
	return err
}

func (s *Stage) inTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	return postgres.InTx(ctx, s.pool, postgres.Relay, f)
}
