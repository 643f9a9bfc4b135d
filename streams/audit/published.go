package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
)

// A mark is an event in so few bytes that those of a whole topic fit in memory: what it says as three hashes, and where it
// stands. The zero mark is none.
type mark struct {
	attributes, key, body uint64
	partition             int32
	end                   int64 // the offset after it
}

// seed makes the hashes of a process; nobody can find two events with one hash beforehand.
var seed = maphash.MakeSeed()

func newMark(id, kind, tenant, key string, body []byte) mark {
	return mark{attributes: maphash.String(seed, id+"\n"+kind+"\n"+tenant), key: maphash.String(seed, key), body: maphash.Bytes(seed, body)}
}

// differences says in what m is not the event that it must be, "" where it is.
func (m mark) differences(want mark) string {
	var parts []string
	for _, part := range []struct {
		name string
		same bool
	}{
		{"its id, type or tenant", m.attributes == want.attributes}, {"its key", m.key == want.key}, {"its body", m.body == want.body},
		{"its partition", m.partition == want.partition},
	} {
		if !part.same {
			parts = append(parts, part.name)
		}
	}
	return strings.Join(parts, ", ")
}

// A ledger is what a topic holds, by lane and number.
type ledger map[numbered]mark

// A numbered event is one of a lane.
type numbered struct {
	lane int
	seq  int64
	copy int32 // of an event that every partition has: that partition, from 1
}

// take removes an event and returns its mark.
func (l ledger) take(n numbered) mark {
	m := l[n]
	delete(l, n)
	return m
}

// published holds our topics against what was to be published.
func (a *auditor) published(ctx context.Context) error {
	observations := ledger{}
	if a.log == nil {
		a.skip("there is no cluster to read", "I9", "I10", "I11", "I13", "I17")
	} else {
		seen := make([]map[int]int64, len(a.log.after[streams.Observations].Ends))
		if err := a.readTopic(ctx, streams.Observations, input, observations, func(r *kgo.Record, lane int, seq int64) {
			a.holdApplied(r, lane, seq, seen)
		}); err != nil {
			return err
		}
		a.holdSeen(seen)
	}
	if err := a.holdHistory(ctx, observations); err != nil || a.log == nil {
		return err
	}
	if err := a.told(ctx); err != nil {
		return err
	}
	return a.currentOffers(ctx)
}

// readTopic enters the events of a topic in the ledger and hands each to f. Of lanes of a kind: nothing else may be there.
func (a *auditor) readTopic(ctx context.Context, topic, kind string, book ledger, f func(r *kgo.Record, lane int, seq int64)) error {
	sequence := map[int]int64{}
	for _, l := range a.lanes {
		if l.Kind == kind {
			sequence[l.ID] = l.Sequence
		}
	}
	before, after := a.log.before[topic], a.log.after[topic]
	for p := range after.Ends {
		last := map[int]int64{} // number, by lane
		for r, err := range a.log.records(ctx, topic, int32(p), after.Starts[p], after.Ends[p]) {
			if err != nil {
				return err
			}
			bad := func(invariant, what, detail string, lane int, seq int64) {
				w := at(topic, p, r.Offset)
				w.Lane, w.Seq = lane, seq
				a.found(Violation{Invariant: invariant, What: what, Where: w, Detail: detail})
			}
			lane, seq, ok := number(r)
			given, known := sequence[lane]
			switch {
			case topic == streams.Replays && header(r, streams.OriginTopic) != "":
				continue // of an input topic, and as every record there it has an outcome
			case !ok || !known || seq < 1:
				bad("I9", "a record is no event of ours", "key "+string(r.Key), 0, 0)
				continue
			case seq > given && r.Offset >= before.Ends[p]:
				continue // later than the snapshot
			case seq > given:
				bad("I9", "an event has a number that its lane has not given", fmt.Sprintf("the lane is at %d", given), lane, seq)
				continue
			}
			a.count("I9", 1, "events in "+topic)
			a.count("I10", 1, "events")
			if seq <= last[lane] {
				bad("I10", "the numbers of a lane do not rise", fmt.Sprintf("it follows number %d", last[lane]), lane, seq)
			}
			last[lane] = seq
			n := numbered{lane: lane, seq: seq}
			if header(r, "ce_type") == streams.DecisionMade {
				n.copy = r.Partition + 1
			}
			if m, twice := book[n]; twice {
				bad("I9", "an event is published twice", fmt.Sprintf("also in partition %d at offset %d", m.partition, m.end-1), lane, seq)
			} else {
				m = newMark(header(r, "ce_id"), header(r, "ce_type"), header(r, "ce_"+streams.ExtTenant), string(r.Key), r.Value)
				m.partition, m.end = r.Partition, r.Offset+1
				book[n] = m
			}
			f(r, lane, seq)
		}
	}
	return nil
}

// holdApplied holds an event of observations against the checkpoint of its partition: below it all is applied, and nothing
// else. It notes the last number of each lane below.
func (a *auditor) holdApplied(r *kgo.Record, lane int, seq int64, seen []map[int]int64) {
	i := slices.IndexFunc(a.checkpoints, func(c view.Checkpoint) bool { return c.Partition == r.Partition })
	if i < 0 {
		return
	}
	c := &a.checkpoints[i]
	a.count("I13", 1, "events")
	applied := c.Applied[lane]
	if below := r.Offset < c.Next; below != (seq <= applied) {
		w := at(streams.Observations, int(r.Partition), r.Offset)
		w.Lane, w.Seq = lane, seq
		what := "an event below the checkpoint is not applied"
		if !below {
			what = "an event at or above the checkpoint is applied"
		}
		a.found(Violation{Invariant: "I13", What: what, Where: w, Detail: fmt.Sprintf("the checkpoint is at offset %d and has applied number %d", c.Next, applied)})
	} else if below {
		if seen[r.Partition] == nil {
			seen[r.Partition] = map[int]int64{}
		}
		seen[r.Partition][lane] = max(seen[r.Partition][lane], seq)
	}
}

// holdSeen finds numbers that a checkpoint has applied and no event below it carries.
func (a *auditor) holdSeen(seen []map[int]int64) {
	topic := a.log.after[streams.Observations]
	for _, c := range a.checkpoints {
		if int(c.Partition) >= len(seen) || c.TopicID != topic.ID {
			a.skip(fmt.Sprintf("partition %d: the topic is not the one that was projected", c.Partition), "I13")
			continue
		}
		if topic.Starts[c.Partition] > 0 {
			continue // the event may be gone
		}
		for lane, applied := range c.Applied {
			if last := seen[c.Partition][lane]; last != applied {
				w := at(streams.Observations, int(c.Partition), c.Next)
				w.Lane, w.Seq = lane, applied
				a.found(Violation{Invariant: "I13", What: "a checkpoint has applied a number that no event below it has", Where: w, Detail: fmt.Sprintf("the last one below it has number %d", last)})
			}
		}
	}
}

// historyAtOnce is how many events of a lane are read at once.
var historyAtOnce int64 = 2000

// holdHistory derives every event of history again, and holds what the topic has of it against it. What is left of the ledger
// is not in history.
func (a *auditor) holdHistory(ctx context.Context, book ledger) error {
	for i := range a.lanes {
		l := &a.lanes[i]
		if l.Kind != input {
			continue
		}
		for after := int64(0); ; {
			var upTo *int64
			if err := a.tx.QueryRow(ctx, statement("page"), l.ID, after, historyAtOnce).Scan(&upTo); err != nil {
				return fmt.Errorf("read the history of lane %d: %w", l.ID, err)
			}
			if upTo == nil {
				break
			}
			events, err := a.history(ctx, l.ID, after, *upTo)
			if err != nil {
				return err
			}
			after = *upTo
			for i := range events {
				e := &events[i]
				a.derive(e)
				if a.log == nil {
					continue
				}
				if err := a.holdEvent(l, e, book); err != nil {
					return err
				}
			}
		}
	}
	if err := a.holdDecisions(book); err != nil {
		return err
	}
	for n, m := range book {
		w := at(streams.Observations, int(m.partition), m.end-1)
		w.Lane, w.Seq = n.lane, n.seq
		a.found(Violation{Invariant: "I9", What: "an event is published that history does not hold", Where: w})
	}
	return nil
}

// derive holds the identity of an observation, and its digest, against its columns.
func (a *auditor) derive(e *history.Event) {
	a.count("I6", 1, "claims")
	o := &e.Observation
	row := offer.Row{Number: o.Row, Record: o.Key.Record, Version: o.SourceVersion, HasVersion: o.Rank.Strong, ObservedAt: o.ObservedAt, Content: o.Content}
	want := history.New(o.Feed, o.Key, o.MappingVersion, o.Delivery, o.WeakIdentity, &row)
	if o.Implied() {
		want = history.Imply(o.Key, o.Feed, o.Run, o.ObservedAt, o.Delivery)
	} else if revision, _, corrected := strings.Cut(o.RevisionKey, ";release="); corrected {
		// A weak revision names the delivery that is corrected: I5 knows which one that is.
		if revision == want.RevisionKey || !o.Rank.Strong && strings.HasPrefix(revision, o.Feed+"/") && strings.HasSuffix(revision, "/"+o.ObservedAt.Text) {
			want.Revise(o.RevisionKey)
		}
	}
	switch at, err := offer.ParseTime(claim(e).ObservedAt.Text); {
	case err != nil || at.Nanos != claim(e).ObservedAt.Nanos:
		a.found(Violation{Invariant: "I6", What: "a claim's time is not the one it is written as", Where: whereOf(e)})
	case e.Sighting != nil: // its observation is derived where it stands itself
	case o.Rank.Content != want.Rank.Content:
		a.found(Violation{Invariant: "I6", What: "an observation's content does not have its digest", Where: whereOf(e),
			Detail: fmt.Sprintf("recorded %s, want %s", o.Rank.Content, want.Rank.Content)})
	case o.Offer != want.Offer || o.RevisionKey != want.RevisionKey || o.Rank != want.Rank:
		a.found(Violation{Invariant: "I6", What: "an observation is not the one that its columns name", Where: whereOf(e),
			Detail: fmt.Sprintf("revision %s, want %s as %s", o.RevisionKey, want.RevisionKey, want.ID())})
	}
}

// holdEvent holds the event of a number against what the topic has under it.
func (a *auditor) holdEvent(l *lane, e *history.Event, book ledger) error {
	c, topic := claim(e), a.log.after[streams.Observations]
	kind := streams.ObservationRecorded
	if e.Sighting != nil {
		kind = streams.ObservationSighted
	}
	body, err := e.Body()
	if err != nil {
		return fmt.Errorf("write event %d of lane %d: %w", c.Seq, l.ID, err)
	}
	want := newMark(e.ID().String(), kind, e.Key.Tenant, e.Key.String(), body)
	want.partition = kafka.PartitionOf(e.Key.String(), len(topic.Ends))
	must := c.Seq <= max(l.Published, a.log.cursor[l.ID]) && topic.Starts[want.partition] == 0
	have, g, sum := book.take(numbered{lane: l.ID, seq: c.Seq}), groupOf(stageLog, e.Key.Tenant, e.Feed, c.RecordedAt), offer.Sum(body)
	there := have.end > 0
	if must || there {
		a.want(g, sum)
	}
	if there {
		if have.differences(want) != "" {
			sum = offer.Digest{} // what it says is told as a violation
		}
		a.have(g, sum)
	}
	a.holdMark(streams.Observations, have, want, must, whereOf(e))
	return nil
}

// holdDecisions holds the event of every decision against each partition's copy.
func (a *auditor) holdDecisions(book ledger) error {
	if a.log == nil {
		return nil
	}
	published := a.publishedUpTo()
	topic := a.log.after[streams.Observations]
	for i := range a.decisions {
		d := &a.decisions[i]
		body, err := d.Body()
		if err != nil {
			return fmt.Errorf("write event %d of lane %d: %w", d.Seq, d.Lane, err)
		}
		want := newMark(d.EventID().String(), streams.DecisionMade, d.Tenant, d.Key(), body)
		for p := range topic.Ends {
			want.partition = int32(p)
			must := d.Seq <= published[d.Lane] && topic.Starts[p] == 0
			a.holdMark(streams.Observations, book.take(numbered{d.Lane, d.Seq, want.partition + 1}), want, must, Where{Tenant: d.Tenant, Lane: d.Lane, Seq: d.Seq})
		}
	}
	return nil
}

// publishedUpTo is the last number of each lane that is published.
func (a *auditor) publishedUpTo() map[int]int64 {
	published := map[int]int64{}
	for _, l := range a.lanes {
		published[l.ID] = max(l.Published, a.log.cursor[l.ID])
	}
	return published
}

// holdMark holds what a topic has of an event against the event.
func (a *auditor) holdMark(topic string, have, want mark, must bool, w Where) {
	w.Topic = topic
	if have.end == 0 {
		if must {
			a.found(Violation{Invariant: "I9", What: "an event that is published is not in its topic", Where: w})
		}
		return
	}
	if differs := have.differences(want); differs != "" {
		w.Partition, w.Offset = &have.partition, new(have.end-1)
		a.found(Violation{Invariant: "I9", What: "a published event is not what is stored", Where: w, Detail: differs + " differ"})
	}
}

// An announcement is the last event of an offer in current-offers.
type announcement struct {
	lane   int
	seq    int64
	end    int64
	digest offer.Digest // of what it says of the offer, as the view publishes it

	collected bool // it says nothing any more
}

// currentOffers holds the topic of offers against the outbox as far as that goes back, and the last event of each offer
// against what the view has published of it. Compaction may have removed the ones before.
func (a *auditor) currentOffers(ctx context.Context) error {
	book, last := ledger{}, map[offer.OfferID]announcement{}
	err := a.readTopic(ctx, streams.CurrentOffers, projector, book, func(r *kgo.Record, lane int, seq int64) {
		var d view.Document
		key, err := offer.ParseKey(string(r.Key))
		if err == nil && r.Value == nil && header(r, "ce_type") == streams.OfferCollected {
			if seq >= last[key.ID()].seq {
				last[key.ID()] = announcement{lane: lane, seq: seq, end: r.Offset + 1, collected: true}
			}
			return
		}
		if err == nil {
			err = json.Unmarshal(r.Value, &d)
		}
		if err != nil || d.Revision != seq {
			w := at(streams.CurrentOffers, int(r.Partition), r.Offset)
			w.Lane, w.Seq = lane, seq
			a.found(Violation{Invariant: "I9", What: "a change of an offer cannot be read", Where: w, Detail: fmt.Sprintf("revision %d, %v", d.Revision, err)})
			return
		}
		o := view.Offer{None: d.State == view.StateNone, Deleted: d.Deleted, Flags: strings.Join(d.Flags, ",")}
		if d.ItemClaimed != nil {
			o.Item, d.Item = d.Item, *d.ItemClaimed
		}
		o.Rank.Content = d.Digest()
		state := stateDigest(o)
		if seq >= last[key.ID()].seq {
			last[key.ID()] = announcement{lane: lane, seq: seq, end: r.Offset + 1, digest: state}
		}
	})
	if err != nil {
		return err
	}
	published := a.publishedUpTo()
	err = a.holdOutbox(ctx, streams.CurrentOffers, book, false, func(lane int, seq int64, key, kind string) {
		if kind == streams.OfferCollected && seq > published[lane] { // it is still there, and no longer shown
			if k, err := offer.ParseKey(key); err == nil {
				delete(last, k.ID())
			}
		}
	})
	if err != nil {
		return err
	}
	return a.holdPublished(ctx, last)
}

// stateDigest is what the view calls the digest of what it publishes.
func stateDigest(o view.Offer) offer.Digest {
	var b []byte
	if !o.None {
		b = o.Rank.Content[:]
	}
	b = append(append(b, map[bool]byte{true: 1}[o.Deleted]), o.Flags...)
	if o.Item != (offer.Item{}) {
		b = append(append(b, '\x1f'), strings.Join(o.Item.Fields(), "\x1f")...)
	}
	return offer.Sum(b)
}

// told holds the topics of events that follow from deliveries against the outbox, as far as that goes back.
func (a *auditor) told(ctx context.Context) error {
	for _, topic := range []string{streams.Replays, streams.DeliveryResults} {
		book := ledger{}
		err := a.readTopic(ctx, topic, input, book, func(*kgo.Record, int, int64) {})
		if err == nil {
			err = a.holdOutbox(ctx, topic, book, true, func(int, int64, string, string) {})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holdOutbox holds the events that the outbox still has for a topic against it, and hands each to f. Where the topic keeps all of
// them those that are published must be there: of a compacted one that is told of the last of each key.
func (a *auditor) holdOutbox(ctx context.Context, topic string, book ledger, kept bool, f func(lane int, seq int64, key, kind string)) error {
	published := a.publishedUpTo()
	rows, err := a.tx.Query(ctx, statement("changes"), topic)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	starts := a.log.after[topic].Starts
	var (
		lane      int
		seq       int64
		key, kind string
		id        uuid.UUID
		body      []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&lane, &seq, &key, &id, &kind, &body}, func() error {
		tenant := "" // of a key that cannot be read: it differs from what is published
		if parts, err := offer.SplitKey(key); err == nil {
			tenant = parts[0]
		}
		want := newMark(id.String(), kind, tenant, key, body)
		want.partition = kafka.PartitionOf(key, len(starts))
		must := kept && seq <= published[lane] && starts[want.partition] == 0
		a.holdMark(topic, book.take(numbered{lane: lane, seq: seq}), want, must, Where{Tenant: tenant, Lane: lane, Seq: seq})
		f(lane, seq, key, kind)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	return nil
}

// holdPublished holds what the view has published of each offer against the last event of it.
func (a *auditor) holdPublished(ctx context.Context, last map[offer.OfferID]announcement) error {
	published := a.publishedUpTo()
	rows, err := a.tx.Query(ctx, statement("published"), a.generation)
	if err != nil {
		return fmt.Errorf("read what is published: %w", err)
	}
	var (
		key      offer.Key
		revision int64
		sum      []byte
		lane     int
		feed     string
		recorded *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&key.Tenant, &key.Account, &key.Record, &revision, &sum, &lane, &feed, &recorded}, func() error {
		a.count("I17", 1, "published offers")
		have, there := last[key.ID()]
		delete(last, key.ID())
		if revision <= published[lane] {
			g := group{stage: stageOffers, tenant: key.Tenant}
			if recorded != nil {
				g = groupOf(stageOffers, key.Tenant, feed, *recorded)
			}
			a.want(g, announced(key, revision, digest(sum)))
			if there {
				a.have(g, announced(key, have.seq, have.digest))
			}
		}
		w := Where{Tenant: key.Tenant, Offer: key.String(), Topic: streams.CurrentOffers, Lane: lane, Seq: revision}
		switch {
		case revision > published[lane]: // still to come
		case !there || have.seq < revision:
			a.found(Violation{Invariant: "I17", What: "the last change of an offer is not in its topic", Where: w, Detail: fmt.Sprintf("the last one there has revision %d", have.seq)})
		case have.lane != lane || have.seq > revision:
			a.found(Violation{Invariant: "I17", What: "an offer has a change that the view did not make", Where: w, Detail: fmt.Sprintf("lane %d revision %d at offset %d", have.lane, have.seq, have.end-1)})
		case digest(sum) != have.digest:
			a.found(Violation{Invariant: "I17", What: "the last change of an offer does not say what the view has published", Where: w, Detail: fmt.Sprintf("at offset %d", have.end-1)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what is published: %w", err)
	}
	for id, have := range last {
		if have.collected {
			continue
		}
		a.found(Violation{Invariant: "I17", What: "an offer is published that the view does not have", Where: Where{Offer: id.String(), Topic: streams.CurrentOffers, Lane: have.lane, Seq: have.seq}})
	}
	return nil
}

// announced is the digest of a change of an offer: its revision, and what the view publishes of it.
func announced(key offer.Key, revision int64, state offer.Digest) offer.Digest {
	return offer.Sum(fmt.Appendf(nil, "%s\t%d\t%s", key, revision, state))
}

// cursors holds the copies of the relay's cursor against the log and the lanes.
func (a *auditor) cursors(context.Context) error {
	if a.log == nil {
		return nil
	}
	sequences := map[int]int64{}
	for _, l := range a.lanes {
		sequences[l.ID] = l.Sequence
		a.count("I11", 1, "lanes")
		if logged := a.log.cursor[l.ID]; l.Published > logged {
			a.found(Violation{Invariant: "I11", What: "the copy of a cursor is ahead of the log", Where: Where{Lane: l.ID, Seq: l.Published}, Detail: fmt.Sprintf("the log says %d", logged)})
		}
		if l.Published > l.Sequence {
			a.found(Violation{Invariant: "I11", What: "a cursor is beyond the last number of its lane", Where: Where{Lane: l.ID, Seq: l.Published}, Detail: fmt.Sprintf("the lane is at %d", l.Sequence)})
		}
	}
	for lane, n := range a.log.early {
		if n > sequences[lane] {
			a.found(Violation{Invariant: "I11", What: "the log's cursor is beyond the last number of its lane", Where: Where{Topic: streams.RelayCursor, Lane: lane, Seq: n}, Detail: fmt.Sprintf("the lane is at %d", sequences[lane])})
		}
	}
	return nil
}
