package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/recovery"
	"github.com/offerlog/offerlog/streams"
)

const (
	// transactionTimeout bounds how long a relay that died in a transaction holds back readers.
	transactionTimeout = 10 * time.Second
	// startTimeout bounds each wait of a starting lane, also that for the open transactions of others.
	startTimeout = 3 * transactionTimeout
	// leaveTimeout bounds what is still done when the process has been told to stop.
	leaveTimeout = 5 * time.Second
)

// A worker relays the events of one lane while its lease lasts.
type worker struct {
	*Stage
	lease   outbox.Lease
	log     *slog.Logger
	work    chan struct{} // there may be something to publish
	stop    context.CancelFunc
	ended   atomic.Bool
	limit   int64           // of events in a transaction; less than MaxEvents after one that failed
	started recovery.Starts // of the session, once it has begun
}

func (w *worker) notify() {
	select {
	case w.work <- struct{}{}:
	default:
	}
}

// run publishes until ctx is done, the lease is lost or the lane is halted. After any other error it begins again from the
// fence: what has become of the last transaction is written in the log and nowhere else.
func (w *worker) run(ctx context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		err := w.session(ctx, wait.Reset)
		if ctx.Err() != nil {
			inOrder := err == nil || errors.Is(err, context.Canceled)
			if !inOrder {
				w.log.WarnContext(ctx, "leave the lane after an error", "error", err)
			}
			w.release(ctx, inOrder)
			return
		}
		if halt, ok := errors.AsType[*haltError](err); ok {
			if err = w.halt(ctx, halt); err == nil {
				return
			}
		}
		if errors.Is(err, outbox.ErrLost) {
			w.log.InfoContext(ctx, "another process has taken the lane")
			return
		}
		w.restarts.Add(1)
		w.log.WarnContext(ctx, "begin the lane again from the fence", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// release gives the lane back, so that nobody has to wait until the lease runs out.
func (w *worker) release(ctx context.Context, inOrder bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	err := w.inTx(ctx, func(tx pgx.Tx) error {
		if inOrder {
			if err := recovery.Leave(ctx, tx, recovery.Relay, w.started); err != nil {
				return err
			}
		}
		return w.lease.Release(ctx, tx)
	})
	if err != nil {
		w.log.WarnContext(ctx, "the lane stays leased until its time is over", "error", err)
	}
}

// A haltError says that a lane cannot go on by itself.
type haltError struct {
	reason string
	detail string // with the next step
}

func (e *haltError) Error() string { return e.reason + ": " + e.detail }

func (w *worker) halt(ctx context.Context, h *haltError) error {
	if err := w.inTx(ctx, func(tx pgx.Tx) error { return w.lease.Halt(ctx, tx, h.reason) }); err != nil {
		return err
	}
	w.log.ErrorContext(ctx, "the lane is halted", "reason", h.reason, "error", h.detail+
		"; then clear halt_reason and halted_at of the lane in relay_cursor")
	return nil
}

// A session is one producer of a lane, from its fence to its first error.
type session struct {
	*worker
	client     *kgo.Client
	epoch      epoch          // that the client works under
	cursor     int64          // the number of the last event in the log
	partitions map[string]int // by topic, as on the cluster
}

// An epoch is the broker's name for one incarnation of a producer.
type epoch struct {
	id    int64
	epoch int16
}

func (s *session) currentEpoch(ctx context.Context) (e epoch, err error) {
	e.id, e.epoch, err = s.client.ProducerID(ctx)
	return e, err
}

// session fences, finds the cursor, and publishes until ctx is done or something goes wrong. It calls progress whenever
// something was published.
func (w *worker) session(ctx context.Context, progress func()) error {
	client, err := w.cluster.NewClient(append([]kgo.Opt{
		kgo.TransactionalID(w.cluster.Prefix + "offerlog-relay-" + strconv.Itoa(w.lease.Lane)),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryTimeoutFn(func(request int16) time.Duration {
			if request == int16(kmsg.EndTxn) {
				return time.Nanosecond // sent once: see publish
			}
			return transactionTimeout
		}),
	}, w.producerOpts...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	s := &session{worker: w, client: client, partitions: map[string]int{}}
	if err := s.start(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		b, err := s.read(ctx)
		if errors.Is(err, outbox.ErrGap) {
			return &haltError{outbox.InvariantBroken, err.Error() + ": find out what has removed it"}
		}
		if err != nil {
			return err
		}
		if b.last == s.cursor {
			select {
			case <-ctx.Done():
			case <-w.work:
			}
			continue
		}
		events := b.last - s.cursor
		err = s.publish(context.WithoutCancel(ctx), b)
		w.adapt(events, s.cursor == b.last)
		if err != nil {
			return err
		}
		progress()
	}
	return nil
}

// adapt sets the limit of the next transaction. One that failed may have been too large for its time, on a slow network or a
// busy broker, and would fail again: the next has half of its events. Each that is committed brings the limit back by a
// tenth of MaxEvents.
func (w *worker) adapt(events int64, committed bool) {
	most := int64(w.cfg.MaxEvents)
	if committed {
		w.limit = min(most, w.limit+max(1, most/10))
	} else {
		w.limit = max(1, events/2)
	}
}

// start fences every other producer of the lane and finds out where its log stands.
func (s *session) start(ctx context.Context) error {
	// A process that has lost the lane fences nobody.
	if _, _, err := s.standing(ctx); err != nil {
		return err
	}
	// The broker ends what the last producer of the lane has left open before it answers. From here on nobody else adds to
	// the lane's log, so what is read now stays true.
	fence, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	if s.epoch, err = s.currentEpoch(fence); err != nil {
		return fmt.Errorf("fence the lane's last producer: %w", err)
	}
	fault.Point("relay.fenced")
	logged, found, err := readCursor(ctx, s.cluster, s.client, s.lease.Lane)
	if err != nil {
		return err
	}
	fault.Point("relay.cursor_read")
	published, sequence, err := s.standing(ctx)
	if err != nil {
		return err
	}
	topic := s.cluster.Topic(streams.RelayCursor)
	switch {
	case logged > sequence:
		return &haltError{outbox.OutboxBehindLog, fmt.Sprintf("topic %s says that number %d is published, the lane has given only %d: "+
			"PostgreSQL has lost commits, restore what it has lost", topic, logged, sequence)}
	case logged < published && !found:
		return &haltError{outbox.CursorBehind, fmt.Sprintf("topic %s has no cursor of the lane, number %d is known as published: "+
			"check that --kafka names the right cluster, restore the topic", topic, published)}
	case logged < published:
		return &haltError{outbox.CursorBehind, fmt.Sprintf("topic %s says that number %d is published, %d is known as published: "+
			"check that --kafka names the right cluster, restore the topic", topic, logged, published)}
	}
	s.cursor = logged
	return s.inTx(ctx, func(tx pgx.Tx) error {
		found := recovery.Found{Lane: s.lease.Lane, Heard: published, Checkpoint: logged, Until: sequence}
		if s.started, err = recovery.Begin(ctx, tx, recovery.Relay, s.lease.Holder, []recovery.Found{found}); err != nil || logged == published {
			return err
		}
		return s.lease.Save(ctx, tx, logged)
	})
}

func (s *session) standing(ctx context.Context) (published, sequence int64, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		published, sequence, err = s.lease.Standing(ctx, tx)
		return err
	})
	return published, sequence, err
}

func (s *session) save(ctx context.Context) error {
	return s.inTx(ctx, func(tx pgx.Tx) error { return s.lease.Save(ctx, tx, s.cursor) })
}

// publish is the transaction that makes a batch public: its events and the new cursor, or nothing. Whatever goes wrong, it
// is not tried again by this producer. An end of transaction that was not answered may have happened, and only the log, read
// after the next fence, knows.
func (s *session) publish(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout+leaveTimeout)
	defer cancel()
	if err := s.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	var promise kgo.FirstErrPromise
	for i, rec := range b.records {
		if i == len(b.records)/2 {
			fault.Point("relay.produced_half")
		}
		s.client.Produce(ctx, rec, promise.Promise())
	}
	s.client.Produce(ctx, CursorRecord(s.cluster, s.lease.Lane, b.last), promise.Promise())
	if err := s.client.Flush(ctx); err != nil {
		return fmt.Errorf("publish the events %d to %d: %w", s.cursor+1, b.last, err)
	}
	if err := promise.Err(); err != nil {
		return fmt.Errorf("publish the events %d to %d: %w", s.cursor+1, b.last, err)
	}
	// The client may get itself a new epoch after an error. It aborts what the old one has sent; the rest must not be
	// committed alone.
	if now, err := s.currentEpoch(ctx); err != nil || now != s.epoch {
		return fmt.Errorf("publish the events %d to %d: %w", s.cursor+1, b.last, cmp.Or(err, errInterrupted))
	}
	if b.offers {
		fault.Point("offers.before_end_txn")
	}
	if err := fault.Err("relay.before_end_txn"); err != nil {
		return err
	}
	if err := s.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit the events %d to %d: %w", s.cursor+1, b.last, err)
	}
	if b.offers {
		fault.Point("offers.after_end_txn")
	}
	if err := fault.Err("relay.after_end_txn"); err != nil {
		return err
	}
	s.events.Add(b.last - s.cursor)
	s.transactions.Add(1)
	s.cursor = b.last
	var err error
	if s.epoch, err = s.currentEpoch(ctx); err != nil { // each transaction has its own
		return fmt.Errorf("begin the next transaction: %w", err)
	}
	if err := s.save(ctx); err != nil {
		return err
	}
	fault.Point("relay.cursor_saved")
	return nil
}

// errInterrupted reports a client that has got itself another epoch in the middle of a transaction.
var errInterrupted = errors.New("the transaction was interrupted")
