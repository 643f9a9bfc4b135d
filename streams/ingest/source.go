package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/recovery"
	"github.com/offerlog/offerlog/streams"
)

// A source reads the input topics as a member of the group. The group only says who reads which partition; where to read
// on is the lanes' word, and the client never chooses an offset by itself.
type source struct {
	client  *kgo.Client
	made    chan struct{} // closed once client is set: the client hears of partitions while it is being made
	pool    *pgxpool.Pool
	cluster kafka.Cluster
	worker  string
	log     *slog.Logger

	mu        sync.Mutex
	positions map[string]map[int32]*position // by the topic's name on the cluster: the partitions that are this worker's
	topics    []string                       // that are consumed, by their own names
	pending   []kgo.FetchTopicPartition      // polled, and not yet in a batch
	starts    int                            // see lane.Start: of the lanes taken over since it was last looked at
	due       map[string]int64               // by tenant, what was published on commands: see tellDue
	halted    map[string]map[int32]int       // lanes of this worker's partitions that rest until an operator decides
	broken    bool                           // the worker ends with an error: what it has in hand is not left in order
}

// A position is a partition of this worker and the next offset it expects to store.
type position struct {
	lane  lane.Lane
	topic string // by its own name
	next  int64
	start int64 // its number, of package recovery
}

// pollFor bounds one wait for records: so often an idle worker looks for feeds with new topics.
const pollFor = time.Second

// rebalanceTimeout is how long the group waits for a member to give partitions back: as long as the largest delivery takes. A
// member that stands still ends its heartbeats, which the group waits for no longer than it ever does.
const rebalanceTimeout = 10 * time.Minute

// open joins the group.
func (w *worker) open(ctx context.Context) (*source, error) {
	src := &source{made: make(chan struct{}), pool: w.pool, cluster: w.cluster, worker: w.name, log: w.log, positions: map[string]map[int32]*position{}, halted: map[string]map[int32]int{}, due: map[string]int64{}}
	topics := append([]string{streams.Commands}, w.cfg.Topics...)
	slices.Sort(topics)
	src.topics = slices.Compact(topics)
	var names []string
	for _, t := range src.topics {
		names = append(names, w.cluster.Topic(t))
	}
	client, err := w.cluster.NewClient(
		kgo.ConsumerGroup(w.cluster.Prefix+streams.IngestGroup),
		kgo.ConsumeTopics(names...),
		kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.StickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that the position passes transaction markers
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(32<<20),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.AdjustFetchOffsetsFn(src.assigned),
		kgo.OnPartitionsRevoked(src.revoked),
		kgo.OnPartitionsLost(src.lostAll),
	)
	if err != nil {
		return nil, err
	}
	src.client = client
	close(src.made)
	if err := kafka.Check(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	return src, nil
}

// close leaves the group: in order, unless the worker ends with an error.
func (src *source) close(err error) {
	src.mu.Lock()
	src.broken = err != nil
	src.mu.Unlock()
	src.client.CloseAllowingRebalance()
}

// assigned answers where to read each new partition from: where its lane stands. A lane whose log does not hold that place
// is halted, for an operator to decide.
func (src *source) assigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-src.made
	for name, partitions := range offsets {
		lanes, err := src.lanesOf(ctx, name)
		if err != nil {
			return nil, err
		}
		var taken []recovery.Found
		src.mu.Lock()
		for p, said := range partitions {
			src.forget(name, p)
			i := slices.IndexFunc(lanes, func(l logged) bool { return l.Partition == p })
			if i < 0 || lanes[i].HaltReason != "" {
				src.rest(name, p)
				if i >= 0 {
					src.halted[name][p] = lanes[i].ID
				}
				partitions[p] = kgo.NewOffset().At(0)
				continue
			}
			delete(src.halted[name], p)
			taken = append(taken, recovery.Found{Lane: lanes[i].ID, Heard: said.EpochOffset().Offset, Until: lanes[i].end})
			src.client.ResumeFetchPartitions(map[string][]int32{name: {p}})
			partitions[p] = kgo.NewOffset().At(lanes[i].Next)
			if src.positions[name] == nil {
				src.positions[name] = map[int32]*position{}
			}
			src.positions[name][p] = &position{lane: lanes[i].Lane, topic: src.cluster.Name(name), next: lanes[i].Next}
		}
		src.mu.Unlock()
		if err := src.start(ctx, name, taken); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// start counts that lanes of a topic were taken over, and records what was found there. Whoever had one of them before and is about
// to commit is waited for.
func (src *source) start(ctx context.Context, name string, taken []recovery.Found) error {
	lanes := make([]int, len(taken))
	for i, f := range taken {
		lanes[i] = f.Lane
	}
	var numbers recovery.Starts
	starts, err := backoff.Retry(ctx, func() (starts int, err error) {
		err = postgres.InTx(ctx, src.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
			if starts, err = lane.Start(ctx, tx, lanes); err != nil {
				return err
			}
			stand, err := lane.Checkpoints(ctx, tx, lanes)
			if err != nil {
				return err
			}
			for i := range taken {
				taken[i].Checkpoint = stand[taken[i].Lane].Next
			}
			numbers, err = recovery.Begin(ctx, tx, recovery.Ingest, src.worker, taken)
			return err
		})
		return starts, err
	}, backoff.WithMaxElapsedTime(0))
	if err != nil {
		return err
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	src.starts = max(src.starts, starts)
	for _, pos := range src.positions[name] {
		if n, ok := numbers[pos.lane.ID]; ok {
			pos.start = n
		}
	}
	return nil
}

// takenOver returns, once, how often the lanes taken over since the last call were taken over without a commit.
func (src *source) takenOver() int {
	src.mu.Lock()
	defer src.mu.Unlock()
	n := src.starts
	src.starts = 0
	return n
}

// forget drops what was polled of a partition and is in no batch yet. The caller holds mu.
func (src *source) forget(name string, p int32) {
	src.pending = slices.DeleteFunc(src.pending, func(f kgo.FetchTopicPartition) bool { return f.Topic == name && f.Partition == p })
}

// rest reads a partition no further, and for an operator's decision looks out at its lane. The caller holds mu.
func (src *source) rest(name string, p int32) {
	src.client.PauseFetchPartitions(map[string][]int32{name: {p}})
	if src.halted[name] == nil {
		src.halted[name] = map[int32]int{}
	}
	if pos := src.positions[name][p]; pos != nil {
		src.halted[name][p] = pos.lane.ID
	}
	delete(src.positions[name], p)
	src.forget(name, p)
}

// reads reports whether a partition is this worker's, by the topic's own name.
func (src *source) reads(topic string, p int32) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.positions[src.cluster.Topic(topic)][p] != nil
}

// resting are the halted lanes of this worker's partitions.
func (src *source) resting() (lanes []int) {
	src.mu.Lock()
	defer src.mu.Unlock()
	for _, partitions := range src.halted {
		lanes = slices.AppendSeq(lanes, maps.Values(partitions))
	}
	return lanes
}

// leaveTimeout bounds the wait for PostgreSQL where partitions are given back: a lane that is not seen to be left in order is taken
// over as after a crash, which does no harm.
const leaveTimeout = 5 * time.Second

// revoked gives partitions back. The group asks for them between batches alone.
func (src *source) revoked(ctx context.Context, _ *kgo.Client, given map[string][]int32) {
	starts := src.drop(given)
	src.mu.Lock()
	broken := src.broken
	src.mu.Unlock()
	if broken || len(starts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	err := postgres.InTx(ctx, src.pool, postgres.Ingest, func(tx pgx.Tx) error { return recovery.Leave(ctx, tx, recovery.Ingest, starts) })
	if err != nil {
		src.log.Warn("partitions are left without a word: the next worker takes them over as after a crash", "error", err)
	}
}

// lostAll hears that others have the partitions by now.
func (src *source) lostAll(_ context.Context, _ *kgo.Client, lost map[string][]int32) { src.drop(lost) }

// drop forgets partitions, and returns the starts of their lanes.
func (src *source) drop(gone map[string][]int32) recovery.Starts {
	src.mu.Lock()
	defer src.mu.Unlock()
	starts := recovery.Starts{}
	for name, partitions := range gone {
		for _, p := range partitions {
			if pos := src.positions[name][p]; pos != nil && pos.start > 0 {
				starts[pos.lane.ID] = pos.start
			}
			delete(src.positions[name], p)
			delete(src.halted[name], p)
			src.forget(name, p)
		}
	}
	return starts
}

// A logged lane is compared with its log, which had this end then.
type logged struct {
	lane.Lane
	end int64
}

// lanesOf registers a topic's partitions and compares them with its log. It tries until it can, or the session ends: what
// is assigned and not answered would be read from nowhere. Of a topic that is gone, or is another than the lanes know, it
// returns none, so that its partitions rest and all others go on.
func (src *source) lanesOf(ctx context.Context, name string) ([]logged, error) {
	lanes, err := backoff.Retry(ctx, func() ([]logged, error) {
		lanes, err := src.register(ctx, name)
		if errors.Is(err, kafka.ErrNoTopic) || errors.Is(err, lane.ErrPartitions) {
			return nil, backoff.Permanent(err)
		}
		return lanes, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		src.log.Warn("cannot compare a topic's partitions with their lanes, trying again", "topic", name, "error", err)
	}))
	if errors.Is(err, kafka.ErrNoTopic) || errors.Is(err, lane.ErrPartitions) {
		src.log.Error("the partitions of a topic rest: it is not the topic that was read", "topic", name, "error", err)
		return nil, nil
	}
	return lanes, err
}

// register makes sure of a topic's lanes and halts those whose log does not hold what comes next.
//
// Meanwhile other workers move the lanes, publishers and retention the bounds. So the lanes are read between two looks at the
// bounds: whoever moves what, a sound log began before at or below where a lane stands, and ends afterwards at or above it.
func (src *source) register(ctx context.Context, name string) (list []logged, err error) {
	before, err := kafka.Describe(ctx, src.client, name, false)
	if err != nil {
		return nil, err
	}
	var lanes []lane.Lane
	recreated := false
	err = postgres.InTx(ctx, src.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		lanes, err = lane.Register(ctx, tx, lane.Input, src.cluster.Name(name), before.ID, before.Starts)
		if recreated = errors.Is(err, lane.ErrRecreated); recreated {
			return src.halt(ctx, tx, lanes, lane.TopicRecreated, func(l lane.Lane) (int64, int64, bool) { return l.Next, l.Next, true })
		}
		return err
	})
	if err != nil || recreated {
		return inLog(lanes, before), err
	}
	after, err := kafka.Describe(ctx, src.client, name, false)
	if err != nil {
		return nil, err
	}
	if after.ID != before.ID {
		return nil, fmt.Errorf("look at topic %s: it was made again meanwhile", name)
	}
	err = postgres.InTx(ctx, src.pool, postgres.Ingest, func(tx pgx.Tx) error {
		gap := func(l lane.Lane) (int64, int64, bool) {
			return l.Next, before.Starts[l.Partition], before.Starts[l.Partition] > l.Next
		}
		cut := func(l lane.Lane) (int64, int64, bool) {
			return after.Ends[l.Partition], l.Next, after.Ends[l.Partition] < l.Next
		}
		return errors.Join(src.halt(ctx, tx, lanes, lane.LogGap, gap), src.halt(ctx, tx, lanes, lane.LogTruncated, cut))
	})
	return inLog(lanes, after), err
}

func inLog(lanes []lane.Lane, topic kafka.Topic) []logged {
	list := make([]logged, len(lanes))
	for i, l := range lanes {
		list[i].Lane = l
		if int(l.Partition) < len(topic.Ends) {
			list[i].end = topic.Ends[l.Partition]
		}
	}
	return list
}

// halt stops the lanes of which lost says what range their log does not hold.
func (src *source) halt(ctx context.Context, tx pgx.Tx, lanes []lane.Lane, reason string, lost func(lane.Lane) (from, to int64, is bool)) error {
	for i, l := range lanes {
		from, to, is := lost(l)
		if !is || l.HaltReason != "" {
			continue
		}
		src.log.Error("partition halted: its log does not hold what comes next", "topic", l.Topic, "partition", l.Partition, "reason", reason, "from", from, "to", to)
		if err := lane.Stop(ctx, tx, l.ID, reason, from, to); err != nil {
			return err
		}
		lanes[i].HaltReason, lanes[i].HaltFrom, lanes[i].HaltTo = reason, from, to
	}
	return nil
}

// maxReplays bounds the events of replays in one batch: what they refer to may be large.
const maxReplays = 100

// A size bounds a batch.
type size struct{ records, bytes int }

// poll waits for records, unless some are left of the last time. Until release no partition is taken away.
func (src *source) poll(ctx context.Context, records int) error {
	if src.left() {
		return nil
	}
	pollCtx, cancel := context.WithTimeout(ctx, pollFor)
	defer cancel()
	fetches := src.client.PollRecords(pollCtx, records)
	src.mu.Lock()
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		if len(part.Records) > 0 {
			src.pending = append(src.pending, part)
		}
	})
	src.mu.Unlock()
	return src.hear(ctx, fetches)
}

// next returns the next of what was polled as a batch of at most the size, or of one record; the batch may be empty.
func (src *source) next(bound size) *batch {
	src.mu.Lock()
	defer src.mu.Unlock()
	b := &batch{lanes: map[int]*position{}}
	for len(src.pending) > 0 && b.records < bound.records && b.bytes < bound.bytes && !b.full {
		part := &src.pending[0]
		if n := src.take(b, part, bound); n < len(part.Records) {
			part.Records = part.Records[n:]
		} else {
			src.pending = src.pending[1:]
		}
	}
	slices.SortFunc(b.spans, func(a, c lane.Span) int { return a.Lane - c.Lane })
	slices.SortStableFunc(b.events, func(a, c *event) int { return a.Compare(c.Place) })
	return b
}

// hear answers what a poll reports beside records. What passes, the client repairs by itself.
func (src *source) hear(ctx context.Context, fetches kgo.Fetches) (failed error) {
	fetches.EachError(func(name string, p int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case errors.As(err, &loss):
			failed = errors.Join(failed, src.truncated(ctx, name, p, loss.ResetTo))
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		case errors.Is(err, kerr.OffsetOutOfRange), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
			failed = errors.Join(failed, src.lost(ctx, name, p))
		default:
			src.log.Warn("cannot read a partition, trying again", "topic", name, "partition", p, "error", err)
		}
	})
	return failed
}

// take adds records of a partition to the batch, as far as they fit, and returns how many were dealt with.
func (src *source) take(b *batch, part *kgo.FetchTopicPartition, bound size) int {
	pos := src.positions[part.Topic][part.Partition]
	if pos == nil {
		return len(part.Records) // not this worker's any more
	}
	n := 0
	for _, rec := range part.Records {
		if rec.Offset < pos.next || rec.Attrs.IsControl() {
			n++
			continue // fetched before the position was moved, or the mark of a transaction
		}
		if b.records >= bound.records || b.alone {
			break
		}
		if pos.topic == streams.Replays && n >= maxReplays {
			b.full = true
			break
		}
		events := newEvents(pos, rec)
		large := slices.ContainsFunc(events, (*event).byReference)
		if b.records > 0 && (large || b.bytes+len(rec.Value) > bound.bytes) {
			b.full = true
			break
		}
		n++
		b.records++
		b.bytes += len(rec.Value)
		b.events = append(b.events, events...)
		b.alone, b.full = large, large
	}
	if n == 0 || part.Records[n-1].Offset < pos.next {
		return n
	}
	b.spans = append(b.spans, lane.Span{Lane: pos.lane.ID, From: pos.next, To: part.Records[n-1].Offset + 1})
	b.lanes[pos.lane.ID] = pos
	return n
}

// release lets the group move partitions again, once nothing that was polled is left.
func (src *source) release() {
	if !src.left() {
		src.client.AllowRebalance()
	}
}

// left reports whether something that was polled is in no batch yet.
func (src *source) left() bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return len(src.pending) > 0
}

// lost handles a partition whose log does not hold the place that was asked for: its bounds are compared again, which
// halts the lane, and the partition rests.
func (src *source) lost(ctx context.Context, name string, p int32) error {
	at := kgo.NewOffset()
	src.mu.Lock()
	if pos := src.positions[name][p]; pos != nil {
		at = at.At(pos.next)
	}
	src.mu.Unlock()
	if _, err := src.assigned(ctx, map[string]map[int32]kgo.Offset{name: {p: at}}); err != nil {
		return fmt.Errorf("look at the log of %s/%d: %w", name, p, err)
	}
	return nil
}

// truncated halts a partition of which the client has learned that its log was cut off at end, before what was read: records
// written since stand under offsets that are stored already.
func (src *source) truncated(ctx context.Context, name string, p int32, end int64) error {
	src.mu.Lock()
	defer src.mu.Unlock()
	pos := src.positions[name][p]
	if pos == nil {
		return nil
	}
	err := postgres.InTx(ctx, src.pool, postgres.Ingest, func(tx pgx.Tx) error {
		return src.halt(ctx, tx, []lane.Lane{pos.lane}, lane.LogTruncated, func(lane.Lane) (int64, int64, bool) { return end, pos.next, true })
	})
	if err == nil {
		src.rest(name, p)
	}
	return err
}

// committed moves the positions over a stored batch and mirrors them to Kafka, for lag tools alone.
func (src *source) committed(ctx context.Context, b *batch) {
	src.mu.Lock()
	mirror := map[string]map[int32]kgo.EpochOffset{}
	for _, sp := range b.spans {
		pos := b.lanes[sp.Lane]
		pos.next = sp.To
		name := src.cluster.Topic(pos.topic)
		if mirror[name] == nil {
			mirror[name] = map[int32]kgo.EpochOffset{}
		}
		mirror[name][pos.lane.Partition] = kgo.EpochOffset{Epoch: -1, Offset: sp.To}
	}
	src.mu.Unlock()
	src.client.CommitOffsets(ctx, mirror, nil)
}

// rewind drops a batch and what was polled beside it: the partitions are read again from where their lanes stand. The lane
// rows are read FOR UPDATE, so that a commit which is still on its way is waited for. A lane that somebody has halted rests.
func (src *source) rewind(ctx context.Context, b *batch) error {
	dropped := map[int]*position{}
	src.mu.Lock()
	for id, pos := range b.lanes {
		dropped[id] = pos
	}
	for _, part := range src.pending {
		if pos := src.positions[part.Topic][part.Partition]; pos != nil {
			dropped[pos.lane.ID] = pos
		}
	}
	src.pending = nil
	src.mu.Unlock()
	if len(dropped) == 0 {
		return nil
	}
	stand, err := backoff.Retry(ctx, func() (stand map[int]lane.Checkpoint, err error) {
		err = postgres.InTx(ctx, src.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
			stand, err = lane.Checkpoints(ctx, tx, slices.Collect(maps.Keys(dropped)))
			return err
		})
		if err != nil && !postgres.OutOfReach(err) {
			return nil, backoff.Permanent(err)
		}
		return stand, err
	}, backoff.WithMaxElapsedTime(0))
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the worker was told to stop
		}
		return fmt.Errorf("read the checkpoint again: %w", err)
	}
	src.mu.Lock()
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for id, at := range stand {
		pos := dropped[id]
		name, p := src.cluster.Topic(pos.topic), pos.lane.Partition
		if src.positions[name][p] != pos {
			continue // taken away, or given again, meanwhile
		}
		if at.Halted {
			src.rest(name, p)
			continue
		}
		pos.next = at.Next
		if offsets[name] == nil {
			offsets[name] = map[int32]kgo.EpochOffset{}
		}
		offsets[name][p] = kgo.EpochOffset{Epoch: -1, Offset: at.Next}
	}
	src.mu.Unlock()
	src.client.SetOffsets(offsets)
	return nil
}

// follow adds the topics that feeds have come to list.
func (src *source) follow(topics []string) {
	for _, t := range topics {
		if !slices.Contains(src.topics, t) {
			src.topics = append(src.topics, t)
			src.client.AddConsumeTopics(src.cluster.Topic(t))
		}
	}
}
