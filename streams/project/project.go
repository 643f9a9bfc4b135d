// Package project makes the current view: it reads observations and writes, for every batch of a partition, the offers that
// changed, what to publish of them, and the checkpoint, in one transaction.
//
//	observations -> current_offer, publication, outbox, projection, lane
//
// The checkpoint is the row of the partition in PostgreSQL, and Kafka's group only shares the partitions out: its offsets
// are a mirror for lag tools, written after the commit and never read. A worker that lost a partition without noticing finds
// the row moved and is fenced, with nothing of its transaction left. Killed anywhere, the stage goes on from the row: before
// the commit the batch is read again, after it the batch is never seen again.
//
// Locks are taken in the order projection, lane, current_offer, publication; the lane's row is the projector's own, so no
// other stage waits for it.
package project

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
)

// ErrFenced reports a checkpoint that does not stand where the worker believes it does: another worker has the partition.
var ErrFenced = errors.New("fenced: the checkpoint was moved by another worker")

// Config holds the choices of a Stage; the zero value works.
type Config struct {
	MaxRecords int    // of one poll; 0: 5,000
	MaxBytes   int32  // of one fetch; 0: 16 MiB
	Worker     string // names the process in the commit journal; "": host name and process id
	Committed  func() // called after each commit, so that a relay in this process need not wait for its next look; may be nil
}

// A Stage projects the partitions of observations that the group gives it.
type Stage struct {
	pool    *pgxpool.Pool
	cluster kafka.Cluster
	cfg     Config
	log     *slog.Logger
	topic   string // observations, as the cluster names it
}

// New returns a stage that projects into the active generation of the database behind pool.
func New(pool *pgxpool.Pool, cluster kafka.Cluster, cfg Config, log *slog.Logger) *Stage {
	if cfg.MaxRecords == 0 {
		cfg.MaxRecords = 5000
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 16 << 20
	}
	if cfg.Worker == "" {
		host, _ := os.Hostname() // a name for people: none is as good as a wrong one
		cfg.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if cfg.Committed == nil {
		cfg.Committed = func() {}
	}
	return &Stage{pool: pool, cluster: cluster, cfg: cfg, log: log, topic: cluster.Topic(streams.Observations)}
}

// Run projects until ctx is done; it finishes the batch in hand, then returns nil. It waits while PostgreSQL or Kafka is out
// of reach. What it returns needs an operator: a topic that was made again or has another number of partitions, a log that
// does not hold the checkpoint, a record that is no event of offerlog, a history that is older than the log.
func (s *Stage) Run(ctx context.Context) error {
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("project: %w", err)
	}
	return nil
}

func (s *Stage) run(ctx context.Context) (err error) {
	w := worker{Stage: s, next: map[int32]int64{}}
	if w.admin, err = s.cluster.NewClient(); err != nil {
		return err
	}
	defer w.admin.Close()
	if _, err := w.checkpoints(ctx); err != nil {
		return err // said here, where nobody has to join a group to hear it
	}
	w.cl, err = s.cluster.NewClient(
		kgo.ConsumerGroup(s.cluster.Topic(streams.ProjectGroup)),
		kgo.ConsumeTopics(s.topic),
		kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.StickyBalancer()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that the checkpoint passes the marks of transactions
		kgo.FetchMaxBytes(s.cfg.MaxBytes),
		kgo.FetchMaxWait(500*time.Millisecond), // partitions that come later are read only when the fetch under way is over
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.AdjustFetchOffsetsFn(w.seek),
	)
	if err != nil {
		return err
	}
	defer w.cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		err := w.take(ctx, w.cl.PollRecords(ctx, s.cfg.MaxRecords))
		w.cl.AllowRebalance()
		if err != nil {
			return err
		}
	}
	return nil
}

// A worker is one run of a Stage: a member of the group.
type worker struct {
	*Stage
	admin, cl *kgo.Client

	mu   sync.Mutex
	next map[int32]int64 // by partition: where this worker believes the checkpoint to stand
}

// take projects what one poll brought, a transaction for each partition.
func (w *worker) take(ctx context.Context, fetches kgo.Fetches) error {
	records := map[int32][]*kgo.Record{}
	fetches.EachRecord(func(r *kgo.Record) { records[r.Partition] = append(records[r.Partition], r) })
	mirror := map[int32]kgo.EpochOffset{}
	for _, p := range slices.Sorted(maps.Keys(records)) {
		err := w.project(context.WithoutCancel(ctx), p, records[p])
		if err := w.respond(ctx, p, err); err != nil {
			return err
		}
		mirror[p] = kgo.EpochOffset{Epoch: -1, Offset: w.expected(p)}
	}
	if len(mirror) > 0 {
		w.cl.CommitOffsets(context.WithoutCancel(ctx), map[string]map[int32]kgo.EpochOffset{w.topic: mirror}, w.mirrored)
	}
	for _, f := range fetches.Errors() {
		if err := w.hear(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// project projects what a poll brought of one partition.
func (w *worker) project(ctx context.Context, partition int32, records []*kgo.Record) error {
	b, err := newBatch(partition, w.expected(partition), records)
	if err != nil || b.from == b.to {
		return err
	}
	fault.Point("project.fetched")
	began := time.Now()
	changed, err := w.store(ctx, b)
	if err != nil {
		return fmt.Errorf("store offsets %d to %d of %s/%d: %w", b.from, b.to, w.topic, b.partition, err)
	}
	fault.Point("project.after_commit")
	w.expect(b.partition, b.to)
	w.cfg.Committed()
	w.log.Debug("projected", "partition", b.partition, "from", b.from, "to", b.to, "events", len(b.events), "changed", changed, "took", time.Since(began))
	return nil
}

// store is the transaction that makes a batch true: all of it, with its checkpoint, or none of it.
func (s *Stage) store(ctx context.Context, b batch) (changed int, err error) {
	err = postgres.InTx(ctx, s.pool, postgres.Project, func(tx pgx.Tx) error {
		generation, err := view.Active(ctx, tx)
		if err != nil {
			return err
		}
		checkpoint, err := view.Lock(ctx, tx, generation, b.partition)
		if err != nil {
			return err
		}
		if checkpoint.Next != b.from {
			return fmt.Errorf("%w: it stands at %d", ErrFenced, checkpoint.Next)
		}
		held, err := lane.Lock(ctx, tx, []lane.Span{{Lane: checkpoint.Lane, From: b.from, To: b.to}})
		if errors.Is(err, lane.ErrFenced) {
			// Only the holder of the checkpoint moves its lane: this is no race that another try could win.
			return fmt.Errorf("lane %d is halted, or does not stand at %d as its checkpoint does", checkpoint.Lane, b.from)
		}
		if err != nil {
			return err
		}
		touched := b.take(&checkpoint)
		changes, err := view.Apply(ctx, tx, checkpoint, touched)
		if err != nil {
			return err
		}
		fault.Point("project.rows_half")
		events, err := announce(changes, &held[0])
		if err != nil {
			return err
		}
		if err := view.Publish(ctx, tx, changes); err != nil {
			return err
		}
		if err := outbox.Append(ctx, tx, nil, events); err != nil {
			return err
		}
		if err := view.Advance(ctx, tx, checkpoint); err != nil {
			return err
		}
		if err := lane.Advance(ctx, tx, held, s.cfg.Worker); err != nil {
			return err
		}
		changed = len(changes)
		fault.Point("project.before_commit")
		return nil
	})
	return changed, err
}

func (w *worker) expected(partition int32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next[partition]
}

func (w *worker) expect(partition int32, next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next[partition] = next
}
