package ingest

import (
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/dataref"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/streams"
)

// A batch is what one poll brought: of each partition the span of offsets it covers, and the events found there, by place.
type batch struct {
	spans     []lane.Span
	lanes     map[int]*position // by lane id
	records   int               // data records
	bytes     int               // of their values
	events    []*event
	alone     bool                  // it is one record, whose size is not bounded
	full      bool                  // the next record does not fit
	condemned string                // why its one record is set aside unread; "": it is not
	outcomes  map[offer.Outcome]int // as committed
	gaps      int                   // as committed: rows that skip versions
	began     bool                  // as committed: it begins a replay
	ended     bool                  // as committed: it sends the last of one
}

// An event is one CloudEvent of the batch, or what stands in its place, with what is known of it before the transaction.
type event struct {
	receipt.Place
	item      delivery.Item
	topic     string       // by its own name
	fault     *offer.Fault // why it cannot be taken; nil: it can
	tenant    string
	feed      *feed.Feed      // nil: none expects it, or it is a command
	command   command         // nil: it is a delivery
	key       *receipt.Key    // nil: it has no replay key
	replay    offer.ReplayKey // meaningful where it has a key
	ref       *Replay         // of an event of replays: what it stands in for; nil: it stands for itself
	from      string          // the topic that what it stands in for came from, or on replays the record itself; "": its own
	fromFeed  string          // the feed that expected it, where it is archived
	asked     string          // the canonicalization that the fingerprint was asked for; "": the feed's own
	data      *dataref.File   // that the event names; nil: none is fetched
	dataFrom  []string        // the hosts that were allowed when it was
	unread    bool            // its data cannot be had, so that there is nothing to compare
	mapped    mapping.Result
	spooled   *spooled     // nil: its rows are in mapped
	overfull  *offer.Fault // more of its rows contradict what stands than are told one by one
	archived  bool
	retrieved time.Time
	run       string
	page      int
	pages     int
	kind      run.Kind   // what it tells of its run; "": it is a delivery, or a command
	told      *run.Event // nil: it is none, or cannot be read
	earliest  int64      // observed_at of its rows, once they are settled; without rows the greatest number
}

// runOf returns the run that an event belongs to: the one that it names, or of a snapshot feed's delivery that names none a run
// of one, which has the delivery's id. Nil: it belongs to none. A correction makes no run of one: it may be of one row, and a
// person has decided that it counts.
func (e *event) runOf() *run.Run {
	switch {
	case e.feed == nil || e.key == nil:
		return nil
	case e.run != "":
		return &run.Run{Tenant: e.tenant, ID: run.ID(e.tenant, e.feed.Name, e.run), Feed: e.feed.Name, Name: e.run}
	case e.feed.Mode == feed.ModeSnapshot && e.kind == "" && !e.corrects():
		return &run.Run{Tenant: e.tenant, ID: uuid.UUID(e.key.Delivery), Feed: e.feed.Name, Name: e.item.Event.ID}
	}
	return nil
}

// held reports whether the claims of an event that belongs to a run wait for a decision on it.
func (e *event) held() bool {
	return e.run == "" || e.feed.Policy.PartialRuns != feed.PartialRunsPublish
}

// fingerprint is what the payload is compared by when the key comes again.
func (e *event) fingerprint() offer.Fingerprint { return e.mapped.Fingerprint }

// weak tells whether what names the delivery is a fallback.
func (e *event) weak() bool { return e.replay.Weak() }

func (e *event) byReference() bool { return e.item.Event.ByReference() }

func (b *batch) hasCommands() bool {
	for _, e := range b.events {
		if e.command != nil {
			return true
		}
	}
	return false
}

func (b *batch) quarantined() bool { return b.outcomes[offer.Quarantined] > 0 }

// newEvents decodes a record: one event each, or several of a batch.
func newEvents(p *position, rec *kgo.Record) []*event {
	items := delivery.Decode(rec)
	if len(items) == 0 {
		// A batch of no events is accepted with none: its place has an outcome like every other.
		return []*event{{Place: receipt.Place{Lane: p.lane.ID, Offset: rec.Offset, Item: -1}, topic: p.topic, tenant: offer.SystemTenant, retrieved: rec.Timestamp}}
	}
	from := ""
	if p.topic == streams.Replays {
		from = originOf(rec)
	}
	events := make([]*event, len(items))
	for i, it := range items {
		e := &event{from: from, Place: receipt.Place{Lane: p.lane.ID, Offset: rec.Offset, Item: it.Event.Item}, topic: p.topic, item: it, retrieved: rec.Timestamp}
		if t := it.Event.RecordedTime; !t.IsZero() {
			e.retrieved = t.Time()
		}
		events[i] = e
	}
	return events
}

// originOf is the input topic that a record of replays was read from; "": it is a reference.
func originOf(rec *kgo.Record) string {
	for _, h := range rec.Headers {
		if h.Key == streams.OriginTopic {
			return string(h.Value)
		}
	}
	return ""
}
