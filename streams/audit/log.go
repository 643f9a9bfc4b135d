package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams"
)

// openFor is how long a transaction may stay open: longer than the relay's, which the broker ends after 10 s.
var openFor = 15 * time.Second

// A log is the topics of the installation as far as they went before the snapshot, and after it.
type log struct {
	cluster kafka.Cluster
	client  *kgo.Client
	before  map[string]kafka.Topic // by own name: our topics, with their committed ends before the snapshot
	after   map[string]kafka.Topic // our topics and those of the lanes after it; those that are gone are not here
	early   map[int]int64          // the relay's cursor before the snapshot, by lane
	cursor  map[int]int64          // and after it
}

// ours are the topics whose content is audited. The cursor comes first: what it says is published by then, the others hold
// when their bounds are noted.
var ours = []string{streams.RelayCursor, streams.Observations, streams.CurrentOffers, streams.Replays, streams.DeliveryResults}

// openLog notes how far our topics go, and whether a transaction is open in them for longer than one may be.
func openLog(ctx context.Context, cluster kafka.Cluster, report *Report) (*log, error) {
	client, err := cluster.NewClient()
	if err != nil {
		return nil, err
	}
	l := &log{cluster: cluster, client: client, before: map[string]kafka.Topic{}, after: map[string]kafka.Topic{}, early: map[int]int64{}, cursor: map[int]int64{}}
	if err := l.open(ctx, report); err != nil {
		client.Close()
		return nil, err
	}
	return l, nil
}

func (l *log) open(ctx context.Context, report *Report) error {
	for _, name := range ours {
		if err := l.waitForTransactions(ctx, name, report); err != nil {
			return err
		}
		t, err := kafka.Describe(ctx, l.client, l.cluster.Topic(name), true)
		if err != nil {
			return err
		}
		l.before[name] = t
		report.count("I11", int64(len(t.Ends)), "partitions")
	}
	t := l.before[streams.RelayCursor]
	return l.readCursor(ctx, t.Starts[0], t.Ends[0], l.early)
}

// waitForTransactions waits until what stands in a topic now is committed or aborted: at rest that is at once.
func (l *log) waitForTransactions(ctx context.Context, name string, report *Report) error {
	all, err := kafka.Describe(ctx, l.client, l.cluster.Topic(name), false)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(openFor)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		stable, err := kafka.Describe(ctx, l.client, l.cluster.Topic(name), true)
		if err != nil {
			return err
		}
		open := -1
		for p, end := range all.Ends {
			if stable.Ends[p] < end {
				open = p
			}
		}
		if open < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			report.found(Violation{Invariant: "I11", What: "a transaction stays open", Where: at(name, open, stable.Ends[open]),
				Detail: fmt.Sprintf("the log goes to %d, committed readers see it up to here", all.Ends[open])})
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func at(topic string, partition int, offset int64) Where {
	return Where{Topic: topic, Partition: new(int32(partition)), Offset: &offset} //nolint:gosec // a number of partitions came from the cluster as an int32
}

func (l *log) close() { l.client.Close() }

// bound notes how far the topics go after the snapshot was taken. An event that the snapshot knows as published may still
// stand behind an open transaction of another lane, out of committed readers' sight: those are waited for.
func (l *log) bound(ctx context.Context, lanes []lane, report *Report) error {
	names := append([]string{}, ours...)
	for _, p := range lanes {
		names = append(names, p.Topic)
	}
	for _, name := range names {
		if _, known := l.after[name]; known {
			continue
		}
		if slices.Contains(ours, name) {
			if err := l.waitForTransactions(ctx, name, report); err != nil {
				return err
			}
		}
		t, err := kafka.Describe(ctx, l.client, l.cluster.Topic(name), true)
		if errors.Is(err, kafka.ErrNoTopic) {
			continue
		}
		if err != nil {
			return err
		}
		l.after[name] = t
	}
	for lane, n := range l.early {
		l.cursor[lane] = n
	}
	return l.readCursor(ctx, l.before[streams.RelayCursor].Ends[0], l.after[streams.RelayCursor].Ends[0], l.cursor)
}

// readCursor adds to what the relay says of its lanes what it says from one offset up to another.
func (l *log) readCursor(ctx context.Context, from, to int64, cursor map[int]int64) error {
	for r, err := range l.records(ctx, streams.RelayCursor, 0, from, to) {
		if err != nil {
			return err
		}
		var v struct {
			Published int64 `json:"published"`
		}
		lane, err := strconv.Atoi(string(r.Key))
		if err == nil {
			err = json.Unmarshal(r.Value, &v)
		}
		if err != nil {
			return fmt.Errorf("read %s at offset %d: %w: nobody but the relay may write this topic", r.Topic, r.Offset, err)
		}
		cursor[lane] = v.Published
	}
	return nil
}

// records reads the committed data records of a partition.
func (l *log) records(ctx context.Context, topic string, partition int32, from, to int64) iter.Seq2[*kgo.Record, error] {
	return l.cluster.Records(ctx, topic, partition, from, to)
}

// number is where an event of ours stands in its lane.
func number(r *kgo.Record) (lane int, seq int64, ok bool) {
	lane, errLane := strconv.Atoi(header(r, "ce_"+streams.ExtLane))
	seq, errSeq := strconv.ParseInt(header(r, "ce_"+streams.ExtLaneSeq), 10, 64)
	return lane, seq, errLane == nil && errSeq == nil
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
