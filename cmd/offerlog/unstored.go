package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
)

// An unstored is what a topic still holds that a replay means and that was never stored.
type unstored struct {
	sel      replay.Selection
	tenant   string
	registry *feed.Registry // of the tenant's feeds
	cluster  kafka.Cluster
	missed   []replay.Missed
}

// lookAtTopic says on standard error what of a selection its topic no longer holds and how much of that is in the archive, and
// returns what the topic holds that was never stored.
func (a *app) lookAtTopic(ctx context.Context, sel replay.Selection) (*unstored, error) {
	a.findDev()
	u := &unstored{sel: sel, tenant: a.settings.Tenant, cluster: a.settings.Cluster()}
	if sel.Topic == "" {
		return u, nil
	}
	cl, err := a.openKafka(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	topic, err := kafka.Describe(ctx, cl, u.cluster.Topic(sel.Topic), true)
	if errors.Is(err, kafka.ErrNoTopic) {
		fmt.Fprintf(a.stderr, "note: topic %s is not there any more: what comes is what the archive holds\n", sel.Topic)
		return u, nil
	}
	if err != nil {
		return nil, err
	}
	return u, a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) error {
		if u.registry, err = feed.Load(ctx, tx); err != nil {
			return err
		}
		lanes, err := lane.List(ctx, tx, lane.Input, sel.Topic)
		if err != nil {
			return err
		}
		for _, l := range lanes {
			if err := a.tellLost(ctx, tx, sel, l, topic); err != nil {
				return err
			}
		}
		missed, err := replay.NeverStored(ctx, tx, &sel)
		for _, m := range missed {
			p := int(m.Partition)
			if p >= len(topic.Starts) {
				continue
			}
			m.From, m.To = max(m.From, topic.Starts[p]), min(m.To, topic.Ends[p])
			if m.From < m.To {
				u.missed = append(u.missed, m)
			}
		}
		return err
	})
}

// tellLost says what of a selection a partition no longer holds.
func (a *app) tellLost(ctx context.Context, tx pgx.Tx, sel replay.Selection, l lane.Lane, topic kafka.Topic) error {
	p := int(l.Partition)
	if sel.Partition != nil && *sel.Partition != l.Partition || p >= len(topic.Starts) {
		return nil
	}
	from, to := l.Start, l.Next
	if sel.FromOffset != nil {
		from = *sel.FromOffset
	}
	if sel.ToOffset != nil {
		to = *sel.ToOffset
	}
	if to = min(to, topic.Starts[p]); from >= to {
		return nil
	}
	sel.Partition, sel.FromOffset, sel.ToOffset = &l.Partition, &from, &to
	plan, err := expect(ctx, tx, a.settings.Tenant, sel)
	if err == nil {
		fmt.Fprintf(a.stderr, "note: topic %s/%d no longer holds offsets %d..%d; %d deliveries of it are in the archive\n", sel.Topic, p, from, to-1, plan.Deliveries)
	}
	return err
}

// expect plans a replay of what is archived.
func expect(ctx context.Context, tx pgx.Tx, tenant string, sel replay.Selection) (plan replay.Plan, err error) {
	r := replay.Run{Tenant: tenant, Selection: sel}
	if r.Stretches, err = replay.Stretches(ctx, tx, tenant, &sel); err == nil {
		plan, err = r.Expect(ctx, tx)
	}
	return plan, err
}

// records reads those that were never stored and that feeds of the tenant expect.
func (u *unstored) records(ctx context.Context) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		for _, m := range u.missed {
			for r, err := range u.cluster.Records(ctx, u.sel.Topic, m.Partition, m.From, m.To) {
				if err == nil && len(u.keys(r)) == 0 {
					continue
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// keys are those of a record's deliveries that feeds of the tenant expect: a record may carry several tenants'.
func (u *unstored) keys(r *kgo.Record) (keys []receipt.Key) {
	for _, it := range delivery.Decode(r) {
		f := u.registry.Route(u.sel.Topic, it.Event.Source)
		if it.Fault != nil || f == nil || f.Tenant != u.tenant || u.sel.Feed != "" && f.Name != u.sel.Feed {
			continue
		}
		if _, isRun := streams.RunEvents[it.Event.Type]; it.Event.Type != streams.DeliveryType && !isRun {
			continue
		}
		key := offer.ReplayKey{Source: f.Who(), EventSource: it.Event.Source, EventID: it.Event.ID}
		if it.Event.Type == streams.DeliveryType {
			key.Declared, _ = f.Identity.Declare(f.Account, &it.Event) // what lacks it is set aside when it is taken
		}
		keys = append(keys, receipt.Key{Tenant: u.tenant, Delivery: key.ID()})
	}
	return keys
}

// deliveries counts those of the records, by key.
func (u *unstored) deliveries(ctx context.Context) (map[receipt.Key]int64, error) {
	counts := map[receipt.Key]int64{}
	for r, err := range u.records(ctx) {
		if err != nil {
			return nil, err
		}
		for _, k := range u.keys(r) {
			counts[k]++
		}
	}
	return counts, nil
}

// planUnstored adds what comes of deliveries that were never stored: one with a receipt is a repeat. That a payload cannot be read
// shows when it is.
func planUnstored(ctx context.Context, tx pgx.Tx, counts map[receipt.Key]int64, p *replay.Plan) error {
	for keys := range slices.Chunk(slices.Collect(maps.Keys(counts)), 1000) {
		known, err := receipt.Find(ctx, tx, keys)
		if err != nil {
			return err
		}
		for _, k := range keys {
			p.Deliveries += counts[k]
			p.Duplicate += counts[k]
			if _, taken := known[k]; !taken {
				p.Accepted++
				p.Duplicate--
			}
		}
	}
	return nil
}

// bringIn puts the records on the topic of replays, at most rate deliveries a second, and waits for what becomes of each lot: beside
// live work, and never in front of it. Whoever interrupts it does it again: what has come in is a repeat.
func (a *app) bringIn(ctx context.Context, u *unstored, rate int) (came []replay.Tally, err error) {
	if len(u.missed) == 0 {
		return nil, nil
	}
	cl, err := a.openClient(ctx, u.cluster.NewPublisher)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var (
		lot   []*kgo.Record
		n     int // deliveries in it: a record may carry many
		began = time.Now()
	)
	put := func() error {
		if len(lot) == 0 {
			return nil
		}
		done, err := produce(ctx, cl, u.cluster, lot)
		if err != nil {
			return err
		}
		attempts, err := awaitOutcomes(ctx, pool, u.tenant, done)
		for _, d := range attempts {
			came = add(came, replay.Tally{Outcome: d.Outcome, Reason: d.Reason, Detail: d.Detail, Count: 1})
		}
		lot = lot[:0]
		return err
	}
	for r, err := range u.records(ctx) {
		if err != nil {
			return came, err
		}
		lot, n = append(lot, again(r, u.sel.Topic)), n+len(u.keys(r))
		if n < rate {
			continue
		}
		if err := put(); err != nil {
			return came, err
		}
		fmt.Fprintf(a.stderr, "never stored: partition %d up to offset %d is in\n", r.Partition, r.Offset)
		select {
		case <-ctx.Done():
			return came, ctx.Err()
		case <-time.After(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate)))): // their time at the rate
		}
		n, began = 0, time.Now()
	}
	return came, put()
}

// again is a record for the topic of replays, with its time and where it comes from.
func again(r *kgo.Record, topic string) *kgo.Record {
	headers := append(slices.Clone(r.Headers), kgo.RecordHeader{Key: streams.OriginTopic, Value: []byte(topic)})
	return &kgo.Record{Topic: streams.Replays, Key: r.Key, Value: r.Value, Headers: headers, Timestamp: r.Timestamp}
}

// add counts a tally into a list of them.
func add(list []replay.Tally, t replay.Tally) []replay.Tally {
	i := slices.IndexFunc(list, func(l replay.Tally) bool {
		return l.Outcome == t.Outcome && l.Reason == t.Reason && l.Detail == t.Detail
	})
	if i < 0 {
		return append(list, t)
	}
	list[i].Count += t.Count
	return list
}
