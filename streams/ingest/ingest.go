// Package ingest turns deliveries into history: it reads input topics, keeps the evidence, decides what each event is, and
// stores everything that a batch says in one PostgreSQL transaction together with the offsets.
//
// Read Stage.Run first, then store. A batch is what one poll brought, of all partitions. Before the transaction nothing is
// visible but archived objects, whose names follow from the batch, so that doing it again reuses them. The transaction
// begins by locking the lanes where this worker believes they stand and ends by moving them, so it happens once however
// often it is tried. After it the offsets are mirrored to Kafka for lag tools; nothing ever reads them back.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/dataref"
	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/pkg/snapshot"
	"github.com/offerlog/offerlog/streams"
)

// Archive is what ingest needs of the archive; *archive.Archive is one.
type Archive interface {
	Write(ctx context.Context, p *archive.Pack) (archive.Ref, error)
	Forget(tenant string)
	Open(ctx context.Context, tenant string, ref archive.Ref, offset int64, item int) (*archive.Content, error)
}

// Mapper is what ingest needs of the mapper; *mapping.Child is one.
type Mapper interface {
	Map(ctx context.Context, specs map[offer.Digest]mapping.Spec, reqs []mapping.Request) ([]mapping.Result, error)
	Spool(ctx context.Context, spec mapping.Spec, req mapping.Request, dir string) (mapping.Result, *mapping.Spool, error)
}

// Fetcher is what ingest needs of package dataref; *dataref.Fetcher is one.
type Fetcher interface {
	Fetch(ctx context.Context, r dataref.Ref) (*dataref.File, *offer.Fault, error)
}

// Config has the choices of a Stage; its zero value works.
type Config struct {
	Worker     string   // names this process in the journal; default host/pid
	Workers    int      // members of the group in this process; default 1
	Topics     []string // input topics beside those of the feeds, by their own names
	MaxRecords int      // records of one batch at most; default 5000
	ChunkRows  int      // rows that a transaction has in memory at once; default 5000
	Fetcher    Fetcher  // of data that events name; default: all of it is forbidden
	Spool      string   // folder for rows of large deliveries while they are stored; default that of temporary files
	Committed  func()   // called after each commit: something waits in the outbox
	// Stored is called after each commit with the records of the batch and how long its transaction took.
	Stored func(records int, took time.Duration)
}

// A Stage is the workers of one process: they share the partitions of the input topics among themselves and with all others.
// While one waits for its transaction, another maps.
type Stage struct {
	pool    *pgxpool.Pool
	cluster kafka.Cluster
	archive Archive
	mapper  Mapper
	cfg     Config
	log     *slog.Logger
	stats   stats
}

// New returns a stage that Run starts.
func New(pool *pgxpool.Pool, cluster kafka.Cluster, arch Archive, mapper Mapper, cfg Config, log *slog.Logger) *Stage {
	if cfg.Worker == "" {
		host, _ := os.Hostname() // a name for people: none is as good as a wrong one
		cfg.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	cfg.Workers = cmp.Or(cfg.Workers, 1)
	cfg.MaxRecords = cmp.Or(cfg.MaxRecords, 5000)
	cfg.ChunkRows = cmp.Or(cfg.ChunkRows, 5000)
	if cfg.Committed == nil {
		cfg.Committed = func() {}
	}
	if cfg.Stored == nil {
		cfg.Stored = func(int, time.Duration) {}
	}
	return &Stage{pool: pool, cluster: cluster, archive: arch, mapper: mapper, cfg: cfg, log: log.With("stage", "ingest"), stats: newStats()}
}

// Run ingests until ctx is done; it finishes the batches in hand, then returns nil.
func (s *Stage) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range s.cfg.Workers {
		w := &worker{Stage: s, name: s.cfg.Worker}
		if s.cfg.Workers > 1 {
			w.name += fmt.Sprintf("/%d", i)
		}
		g.Go(func() error { return w.run(ctx) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	return nil
}

// A worker is one member of the group: it has its own partitions, and one batch in hand.
type worker struct {
	*Stage
	name     string         // in the journal
	registry *feed.Registry // as of the last batch
	replays  bool           // there was something on replays
	turnedAt time.Time      // the pages of replays that are due
	asked    map[replay.Due]time.Time
	pace     pace

	lookedForDue time.Time
}

func (w *worker) run(ctx context.Context) error {
	w.pace = newPace(w.cfg.MaxRecords)
	for ctx.Err() == nil {
		if err := w.join(ctx); err != nil {
			return err
		}
	}
	return nil
}

// join is a member of the group until ctx is done, or until an operator has let one of its halted lanes go on: then it joins
// anew, as after a restart, and every partition begins where its lane stands.
func (w *worker) join(ctx context.Context) (ended error) {
	src, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer func() { src.close(ended) }()
	for ctx.Err() == nil {
		b := &batch{}
		adopted, err := w.refresh(ctx, src.resting())
		if adopted {
			w.log.Info("an operator lets a halted lane go on: joining the group anew")
			return nil
		}
		if err == nil {
			err = w.turnPages(ctx, src)
		}
		if err == nil {
			src.follow(w.topics())
			err = w.tellDue(ctx, src)
		}
		if err == nil {
			err = src.poll(ctx, w.cfg.MaxRecords)
		}
		if err == nil {
			w.pace.takeOver(src.takenOver())
			b = src.next(w.pace.size())
		}
		if len(b.spans) > 0 {
			fault.Point("ingest.fetched")
			err = w.attempt(context.WithoutCancel(ctx), src, b)
		}
		if err := w.respond(ctx, src, b, err); err != nil {
			return err
		}
		src.release()
	}
	return nil
}

// attempt takes a batch. While something is amiss with the lanes in hand, batches are single records, and each try of one is
// counted before it is made: a record that workers have died of is set aside, and the partition goes on.
func (w *worker) attempt(ctx context.Context, src *source, b *batch) error {
	if w.pace.alone > 0 && b.records == 1 {
		var tries int
		err := postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
			tries, err = lane.Try(ctx, tx, b.events[0].Lane)
			return err
		})
		if err != nil {
			return err
		}
		if tries > maxTries {
			b.condemned = fmt.Sprintf("%d workers died of it, or the database refused it", maxTries)
		}
	}
	defer b.discard()
	return w.take(ctx, src, b)
}

// refresh brings the registry to the one in force, and says whether one of the halted lanes may go on.
func (w *worker) refresh(ctx context.Context, halted []int) (adopted bool, err error) {
	err = postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		if len(halted) > 0 {
			if adopted, err = lane.Adopted(ctx, tx, halted); err != nil {
				return err
			}
		}
		if w.registry, err = feed.Current(ctx, tx, w.registry); err != nil || w.replays {
			return err
		}
		if w.replays, err = quarantine.AnyReplay(ctx, tx); err != nil || w.replays {
			return err
		}
		w.replays, err = replay.Any(ctx, tx)
		return err
	})
	return adopted && err == nil, err
}

// topics are those that the worker is to read by now. Replays is among them once something was put there.
func (w *worker) topics() []string {
	topics := w.registry.Topics()
	if w.replays {
		topics = append(topics, streams.Replays)
	}
	return topics
}

// errReadAgain reports that what the batch was read under is no longer in force: a feed was applied since, a receipt appeared that
// asks for another canonicalization, or a delivery has turned out to be set aside whole. The batch is read again, from the bytes in
// hand.
var errReadAgain = errors.New("the batch was read under what is no longer in force")

// take does all that a batch needs, up to its commit.
func (w *worker) take(ctx context.Context, src *source, b *batch) error {
	var took time.Duration
	for {
		if err := w.read(ctx, b); err != nil {
			return err
		}
		fault.Point("ingest.mapped")
		stored, err := w.keep(ctx, b)
		if err != nil {
			return err
		}
		began := time.Now()
		err = w.store(ctx, b, stored)
		took = time.Since(began)
		if errors.Is(err, errReadAgain) {
			continue
		}
		if shredded, ok := errors.AsType[*archive.ShreddedError](err); ok {
			w.archive.Forget(shredded.Tenant) // its key was destroyed since: the evidence is kept under a new one
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	fault.Point("ingest.after_commit")
	if b.quarantined() {
		fault.Point("quarantine.after_commit")
	}
	if b.began {
		fault.Point("replay.run_created")
	}
	if b.ended {
		fault.Point("replay.run_done")
	}
	w.cfg.Committed()
	src.committed(ctx, b)
	fault.Point("ingest.after_mirror")
	w.stats.batch(b)
	w.cfg.Stored(b.records, took)
	w.log.Debug("batch stored", "records", b.records, "events", len(b.events), "took", took)
	return nil
}

// store is the transaction that makes a batch true: all of it, with its offsets, or none of it. Locks are taken in one
// order everywhere: lanes, accounts, registry, receipts, runs, observations and sightings, quarantine, artifacts, outcomes, decisions,
// outbox.
func (w *worker) store(ctx context.Context, b *batch, stored []archive.Stored) error {
	return postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) error {
		held, err := lane.Lock(ctx, tx, b.spans)
		if err != nil {
			return err // fenced: somebody else has these partitions
		}
		fault.Point("ingest.tx_locked")
		accounts := b.snapshotAccounts(w.registry)
		if err := snapshot.Lock(ctx, tx, accounts); err != nil {
			return err
		}
		if err := w.checkRegistry(ctx, tx, b); err != nil {
			return err
		}
		st := newSettlement(b, held, w.registry)
		if err := st.decideCommands(ctx, tx); err != nil {
			return err
		}
		if err := st.claimReceipts(ctx, tx); err != nil {
			return err
		}
		fault.Point("ingest.receipts_claimed")
		if err := st.findReadings(ctx, tx); err != nil {
			return err
		}
		st.settleEvents()
		if err := st.beginRuns(ctx, tx); err != nil {
			return err
		}
		if err := st.settleRows(ctx, tx, w.cfg.ChunkRows); err != nil {
			return err
		}
		if err := st.settleRuns(ctx, tx, accounts); err != nil {
			return err
		}
		if err := quarantine.Add(ctx, tx, st.entries); err != nil {
			return err
		}
		if err := quarantine.Resolve(ctx, tx, st.resolvedTenants, st.resolved); err != nil {
			return err
		}
		if err := quarantine.ResolveReread(ctx, tx, st.reread()); err != nil {
			return err
		}
		if err := archive.Record(ctx, tx, stored); err != nil {
			return err
		}
		if err := st.shred(ctx, tx); err != nil {
			return err
		}
		if err := st.tellResults(); err != nil {
			return err
		}
		st.number()
		if err := receipt.Record(ctx, tx, st.attempts); err != nil {
			return err
		}
		if err := st.recordDecisions(ctx, tx); err != nil {
			return err
		}
		if err := st.recordEntryDecisions(ctx, tx); err != nil {
			return err
		}
		if err := st.recordPages(ctx, tx); err != nil {
			return err
		}
		if err := st.recordReplays(ctx, tx); err != nil {
			return err
		}
		if err := outbox.Append(ctx, tx, st.ranges(), st.events); err != nil {
			return err
		}
		if err := lane.Advance(ctx, tx, st.held, w.name); err != nil {
			return err
		}
		b.outcomes, b.gaps, b.began, b.ended = st.outcomes(), st.gaps, st.began, st.ended
		if b.quarantined() {
			fault.Point("quarantine.before_commit")
		}
		fault.Point("ingest.before_commit")
		return nil
	})
}

// checkRegistry makes sure that the batch was read under the registry in force, and keeps it in force until the commit. A
// batch that may change the registry takes it for itself.
func (w *worker) checkRegistry(ctx context.Context, tx pgx.Tx, b *batch) error {
	lock := feed.LockShared
	if b.hasCommands() {
		lock = feed.LockExclusive
	}
	version, err := lock(ctx, tx)
	if err != nil {
		return err
	}
	if version != w.registry.Version {
		return errReadAgain
	}
	return nil
}
