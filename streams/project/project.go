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
// A partition whose log lost, replaced or holds what it must not is halted: its lane says why, nothing of it is read any
// further by any worker, and the others go on.
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

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/recovery"
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
	return &Stage{pool: pool, cluster: cluster, cfg: cfg, log: log.With("stage", "project"), topic: cluster.Topic(streams.Observations)}
}

// Run projects until ctx is done; it finishes the batch in hand, then returns nil. It waits while PostgreSQL or Kafka is out
// of reach, and halts a partition that cannot be projected. What it returns concerns all partitions and needs an operator:
// no topic when it begins, another number of partitions (ErrPartitions), a database that refuses.
func (s *Stage) Run(ctx context.Context) error {
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("project: %w", err)
	}
	return nil
}

func (s *Stage) run(ctx context.Context) (err error) {
	w := worker{Stage: s, next: map[int32]int64{}, starts: map[int32]recovery.Starts{}}
	if w.admin, err = s.cluster.NewClient(); err != nil {
		return err
	}
	defer w.admin.Close()
	// Said here, where nobody has to join a group to hear it.
	if _, err := kafka.Describe(ctx, w.admin, s.topic, false); errors.Is(err, kafka.ErrNoTopic) {
		return err
	}
	if _, err := w.places(ctx); err != nil {
		return err
	}
	w.mu.Lock() // seek, which the client calls as soon as it lives, waits until cl is set
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
		kgo.OnPartitionsRevoked(w.revoked),
		kgo.OnPartitionsLost(w.lostAll),
	)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	defer w.cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		err := w.take(ctx, w.cl.PollRecords(ctx, s.cfg.MaxRecords))
		if err != nil {
			w.mu.Lock()
			clear(w.starts) // what it has in hand is not left in order
			w.mu.Unlock()
		}
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

	mu     sync.Mutex
	next   map[int32]int64           // where this worker believes the checkpoints to stand; without the partitions that rest
	starts map[int32]recovery.Starts // of the partitions that are this worker's
}

// take projects what one poll brought, a transaction for each partition. Errors first: what came of a log that was cut off is
// not to be projected.
func (w *worker) take(ctx context.Context, fetches kgo.Fetches) error {
	for _, f := range fetches.Errors() {
		if err := w.hear(ctx, f); err != nil {
			return err
		}
	}
	records := map[int32][]*kgo.Record{}
	fetches.EachRecord(func(r *kgo.Record) { records[r.Partition] = append(records[r.Partition], r) })
	mirror := map[int32]kgo.EpochOffset{}
	for _, p := range slices.Sorted(maps.Keys(records)) {
		err := w.project(context.WithoutCancel(ctx), p, records[p])
		if err := w.respond(ctx, p, err); err != nil {
			return err
		}
		if next, ok := w.expected(p); ok {
			mirror[p] = kgo.EpochOffset{Epoch: -1, Offset: next}
		}
	}
	if len(mirror) > 0 {
		w.cl.CommitOffsets(context.WithoutCancel(ctx), map[string]map[int32]kgo.EpochOffset{w.topic: mirror}, w.mirrored)
	}
	return nil
}

// project projects what a poll brought of one partition: where a record is none of ours, what stands before it.
func (w *worker) project(ctx context.Context, partition int32, records []*kgo.Record) error {
	next, ok := w.expected(partition)
	if !ok {
		return nil // fetched before it was halted
	}
	b, foreign := newBatch(partition, next, records)
	if b.from == b.to {
		return foreign
	}
	fault.Point("project.fetched")
	began := time.Now()
	changed, err := w.store(ctx, b)
	if postgres.Refused(err) {
		return w.narrow(ctx, b, records, err)
	}
	if err != nil {
		return fmt.Errorf("store offsets %d to %d of %s/%d: %w", b.from, b.to, w.topic, b.partition, err)
	}
	fault.Point("project.after_commit")
	w.expect(b.partition, b.to)
	w.cfg.Committed()
	w.log.Debug("projected", "partition", b.partition, "from", b.from, "to", b.to, "events", len(b.events), "changed", changed, "took", time.Since(began))
	return foreign
}

// narrow projects a batch that the database refuses record by record, up to the one whose event it refuses, at which the partition halts:
// to go on would be to skip it, and tried again it is refused again.
func (w *worker) narrow(ctx context.Context, b batch, records []*kgo.Record, err error) error {
	if len(records) == 1 {
		return b.broken(fmt.Errorf("the database refuses what the record at offset %d of %s/%d changes in the view: %w: mend what the error names, "+
			"set halt_reason, halt_from, halt_to and halted_at of the partition's lane in table lane to null, and start the projector again", records[0].Offset, w.topic, b.partition, err))
	}
	for i := range records {
		if err := w.project(ctx, b.partition, records[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// store is the transaction that makes a batch true: all of it, with its checkpoint, or none of it.
func (s *Stage) store(ctx context.Context, b batch) (changed int, err error) {
	err = postgres.InTx(ctx, s.pool, postgres.Project, func(tx pgx.Tx) error {
		checkpoints, err := view.Take(ctx, tx, b.partition)
		if err != nil {
			return err
		}
		active := checkpoints[0]
		if active.Next != b.from {
			return fmt.Errorf("%w: it stands at %d", ErrFenced, active.Next)
		}
		held, err := lane.Lock(ctx, tx, []lane.Span{{Lane: active.Lane, From: b.from, To: b.to}})
		if errors.Is(err, lane.ErrFenced) {
			// Only the holder of the checkpoint moves its lane: this is no race that another try could win.
			return b.broken(fmt.Errorf("lane %d is halted, or does not stand at %d as its checkpoint does", active.Lane, b.from))
		}
		if err != nil {
			return err
		}
		if changed, err = s.move(ctx, tx, &b, active, &held[0]); err != nil {
			return err
		}
		for _, c := range checkpoints[1:] {
			if _, err := s.move(ctx, tx, &b, c, nil); err != nil {
				return err
			}
		}
		if !active.Publishes {
			n, err := s.handOver(ctx, tx, &b, checkpoints, &held[0])
			if err != nil {
				return err
			}
			changed += n
		}
		if err := lane.Advance(ctx, tx, held, s.cfg.Worker); err != nil {
			return err
		}
		fault.Point("project.before_commit")
		return nil
	})
	return changed, err
}

// move projects a batch into one generation. What changes is published in the lane that is held; nil: of a generation beside the
// active one nothing is.
func (s *Stage) move(ctx context.Context, tx pgx.Tx, b *batch, c view.Checkpoint, held *lane.Held) (changed int, err error) {
	touched, decided := b.take(&c)
	// Claims first: an offer that a decision concerns has its row by then.
	if changed, err = s.show(ctx, tx, b, c, held, touched, false); err != nil {
		return 0, err
	}
	if held != nil {
		fault.Point("project.rows_half")
	}
	for _, subjects := range decided {
		n, err := s.decide(ctx, tx, b, c, held, subjects)
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, view.Advance(ctx, tx, c)
}

// handOver publishes, at the first batch after a switch, what the generation that is active now shows otherwise than was published,
// and has the partition publish that generation from here on.
func (s *Stage) handOver(ctx context.Context, tx pgx.Tx, b *batch, checkpoints []view.Checkpoint, held *lane.Held) (changed int, err error) {
	changes, err := view.Differing(ctx, tx, checkpoints[0], publishing(checkpoints).Generation)
	if err == nil {
		err = s.publish(ctx, tx, b, held, changes)
	}
	if err != nil {
		return 0, err
	}
	return len(changes), view.HandOver(ctx, tx, checkpoints[0])
}

// decide folds the offers again that decisions on subjects of one tenant and kind concern: each once, however many concern it.
func (s *Stage) decide(ctx context.Context, tx pgx.Tx, b *batch, c view.Checkpoint, held *lane.Held, subjects []decision.Subject) (changed int, err error) {
	for offers, err := range view.Concerned(ctx, tx, c, subjects) {
		if err != nil {
			return 0, err
		}
		n, err := s.show(ctx, tx, b, c, held, offers, true)
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
}

// show folds offers, and writes those that stand otherwise now; where a lane is held it publishes them.
func (s *Stage) show(ctx context.Context, tx pgx.Tx, b *batch, c view.Checkpoint, held *lane.Held, offers []offer.Key, decided bool) (changed int, err error) {
	changes, err := view.Apply(ctx, tx, c, offers, decided)
	if errors.Is(err, view.ErrBehind) {
		return 0, b.broken(err)
	}
	if err != nil {
		return 0, err
	}
	if held == nil {
		return len(changes), nil
	}
	return len(changes), s.publish(ctx, tx, b, held, changes)
}

// publish gives changes their revisions and sends them on their way.
func (s *Stage) publish(ctx context.Context, tx pgx.Tx, b *batch, held *lane.Held, changes []view.Change) error {
	events, err := announce(changes, held)
	if err != nil {
		return err
	}
	err = view.Publish(ctx, tx, changes, held.RecordedAt)
	if errors.Is(err, view.ErrRevision) {
		return b.broken(err)
	}
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, nil, events)
}

func (w *worker) expected(partition int32) (next int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, ok = w.next[partition]
	return next, ok
}

func (w *worker) expect(partition int32, next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next[partition] = next
}
