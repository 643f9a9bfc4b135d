package project

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
)

// A batch is what a poll brought of one partition: the offsets [from, to), marks of transactions included.
type batch struct {
	partition int32
	from, to  int64
	events    []event
}

// An event is all that a record has to say here: which offer changed, or what was decided about, and up to which number of
// which lane.
type event struct {
	lane    int
	seq     int64
	key     offer.Key
	decided *decision.Subject // nil: the event is about the offer
}

// newBatch reads records from the offset that the checkpoint expects. What cannot be read here was not written by offerlog:
// the batch ends before it with a haltError, since to go on would be to skip it.
func newBatch(partition int32, from int64, records []*kgo.Record) (batch, error) {
	b := batch{partition: partition, from: from, to: from}
	for _, r := range records {
		if r.Offset < from {
			continue // fetched before a seek
		}
		if !r.Attrs.IsControl() {
			e, err := newEvent(r)
			if err != nil {
				return b, &haltError{outbox.InvariantBroken, r.Offset, r.Offset + 1,
					fmt.Errorf("read %s/%d at offset %d: %w: nobody but the relay may write this topic", r.Topic, r.Partition, r.Offset, err)}
			}
			b.events = append(b.events, e)
		}
		b.to = r.Offset + 1
	}
	return b, nil
}

func newEvent(r *kgo.Record) (e event, err error) {
	if e.lane, err = strconv.Atoi(header(r, "ce_"+streams.ExtLane)); err != nil {
		return e, fmt.Errorf("the lane: %w", err)
	}
	if e.seq, err = strconv.ParseInt(header(r, "ce_"+streams.ExtLaneSeq), 10, 64); err != nil {
		return e, fmt.Errorf("the number in the lane: %w", err)
	}
	if header(r, "ce_type") != streams.DecisionMade {
		e.key, err = offer.ParseKey(string(r.Key))
		return e, err
	}
	subject, err := decision.ParseKey(string(r.Key))
	e.decided = &subject
	return e, err
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// broken halts the partition at the batch: the database does not agree with itself, or with the log.
func (b *batch) broken(err error) error {
	return &haltError{outbox.InvariantBroken, b.from, b.to, err}
}

// take moves the checkpoint over the batch and returns the offers that its new events touch, and what they decide about, in groups.
func (b *batch) take(c *view.Checkpoint) (touched []offer.Key, decided [][]decision.Subject) {
	var subjects []decision.Subject
	touched = make([]offer.Key, 0, len(b.events))
	for _, e := range b.events {
		switch {
		case !c.Take(e.lane, e.seq):
		case e.decided != nil:
			subjects = append(subjects, *e.decided)
		default:
			touched = append(touched, e.key)
		}
	}
	c.Next = b.to
	return touched, decision.Groups(subjects)
}

// announce gives changes their revisions, the next numbers of the projector's lane, and makes events of them.
func announce(changes []view.Change, held *lane.Held) ([]outbox.Event, error) {
	events := make([]outbox.Event, len(changes))
	for i := range changes {
		c := &changes[i]
		held.Sequence++
		c.Revision = held.Sequence
		body, err := c.Body()
		if err != nil {
			return nil, fmt.Errorf("write offer %s: %w", c.Winner.Key, err)
		}
		key := c.Winner.Key.String()
		events[i] = outbox.Event{
			Lane: held.Lane, Seq: c.Revision, Topic: streams.CurrentOffers, Key: key,
			ID: offer.Derive("offer-change", key, strconv.FormatInt(c.Revision, 10)), Type: streams.OfferChanged,
			Body: body, RecordedAt: held.RecordedAt,
		}
		if c.Collected() {
			events[i].Type = streams.OfferCollected
		}
	}
	return events, nil
}
