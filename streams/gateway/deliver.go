package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/settle"
)

// A Taken says where a delivery stands that is in Kafka, and where its outcome will be found.
type Taken struct {
	Topic     string `json:"topic"` // by its own name
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	ID        string `json:"id"`
	ReplayKey string `json:"replay_key"`
	Location  string `json:"location"` // the path of the receipt
}

// An event is one of a request, with what becomes of it.
type event struct {
	delivery.Item
	feed   *feed.Registered
	record *kgo.Record

	problem *Problem          // why it is not taken; nil: it is
	taken   Taken             // where it stands
	receipt *receipt.Document // nil where its outcome was not waited for, or did not come in time
}

// deliver takes what a request holds: one event, a batch of them, or a plain file.
func (s *Stage) deliver(w http.ResponseWriter, r *http.Request, who token.Bearer) error {
	end, ok := s.limits.begin(who.Token)
	if !ok {
		return tooMany(time.Second)
	}
	defer end()
	named, err := s.feedOf(r.Context(), r, who.Tenant)
	if err != nil {
		return err
	}
	events, err := s.take(w, r, who.Tenant, named)
	if err != nil {
		return err
	}
	if wait := wanted(r); wait > 0 {
		w.Header().Set("Preference-Applied", "wait")
		if err := s.await(r.Context(), who.Tenant, events, wait); err != nil {
			s.log.Warn("cannot tell an outcome", "error", err) // the deliveries are taken, and this is what is answered
		}
	}
	if mediaType(r) == "application/cloudevents-batch+json" {
		return writeBatch(w, events)
	}
	return writeOne(w, &events[0])
}

// take reads the events of a request and writes those that can be taken to Kafka. The body's memory is given back when it
// returns: nothing of the payloads is in what it returns.
func (s *Stage) take(w http.ResponseWriter, r *http.Request, tenant string, named *feed.Registered) ([]event, error) {
	body, release, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	defer release()
	rec, err := recordOf(r, body, named)
	if err != nil {
		return nil, err
	}
	items := delivery.Decode(rec)
	events := make([]event, len(items))
	for i, it := range items {
		events[i].Item = it
	}
	if err := s.route(r.Context(), tenant, named, events); err != nil {
		return nil, err
	}
	s.produce(r.Context(), events, trace(r))
	for i := range events {
		e := &events[i]
		e.Item, e.record = delivery.Item{}, nil
		if e.problem == nil {
			s.log.Debug("delivery taken", "tenant", tenant, "feed", e.feed.Feed, "topic", e.taken.Topic, "partition", e.taken.Partition, "offset", e.taken.Offset)
		}
	}
	return events, nil
}

// findFeed returns a feed of a tenant. One of another tenant's is as unknown as one that nobody has.
func (s *Stage) findFeed(ctx context.Context, tenant, name string) (*feed.Registered, error) {
	var found feed.Registered
	err := postgres.AsTenant(ctx, s.pool, postgres.Read, tenant, func(tx pgx.Tx) (err error) {
		found, err = feed.Show(ctx, tx, name)
		return err
	})
	if errors.Is(err, feed.ErrUnknown) || name == "" {
		return nil, problem(codeNoFeed, "no feed is named "+quote(name))
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// route finds the feed of each event and makes its record, or says why it is not taken. What an event says of its tenant
// decides nothing: the feed is looked for among those of the token's.
func (s *Stage) route(ctx context.Context, tenant string, named *feed.Registered, events []event) error {
	var sources []string
	for i := range events {
		if e := &events[i]; e.Fault == nil {
			sources = append(sources, e.Event.Source)
		}
	}
	slices.Sort(sources)
	feeds := map[string][]feed.Registered{}
	if named != nil {
		feeds[named.Source] = []feed.Registered{*named}
	} else if len(sources) > 0 {
		err := postgres.AsTenant(ctx, s.pool, postgres.Read, tenant, func(tx pgx.Tx) error {
			list, err := feed.BySource(ctx, tx, slices.Compact(sources))
			clear(feeds)
			for _, f := range list {
				feeds[f.Source] = append(feeds[f.Source], f)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for i := range events {
		s.routeOne(&events[i], feeds)
	}
	return nil
}

func (s *Stage) routeOne(e *event, feeds map[string][]feed.Registered) {
	of := feeds[e.Event.Source]
	tells := streams.RunEvents[e.Event.Type]
	switch {
	case e.Fault != nil:
		e.problem = refused(e.Fault)
		return
	case e.Event.Type != streams.DeliveryType && tells == "":
		e.problem = problem(codeType, "type "+quote(e.Event.Type)+": want "+streams.DeliveryType+", or that of an event of a run")
		return
	case len(of) == 0:
		e.problem = problem(codeSource, "source "+quote(e.Event.Source)+" is that of no feed that the token may send to")
		return
	case len(of) > 1:
		e.problem = problem(codeAmbiguous, fmt.Sprintf("%d feeds have source %s: name one with ?feed=", len(of), quote(e.Event.Source)))
		return
	}
	e.feed = &of[0]
	var (
		declared string
		fault    *offer.Fault
	)
	if tells == "" {
		declared, fault = e.feed.Spec.Identity.Declare(e.feed.Spec.Account, &e.Event)
	} else {
		fault = readable(tells, &e.Event)
	}
	if fault != nil {
		e.problem = refused(fault)
		return
	}
	key := e.Event.Attributes["partitionkey"]
	if key == "" {
		key = e.Event.ID // a repeat comes behind the first in the same partition
	}
	var err error
	if e.record, err = e.Event.Record(s.cluster.Topic(e.feed.Topics[0]), []byte(key)); err != nil {
		e.problem = problem(offer.ReasonUnsupportedFormat, err.Error())
		return
	}
	who := offer.Source{Tenant: e.feed.Tenant, Connector: e.feed.Spec.Connector, Account: e.feed.Spec.Account}
	e.taken.ID = e.Event.ID
	e.taken.ReplayKey = offer.ReplayKey{Source: who, EventSource: e.Event.Source, EventID: e.Event.ID, Declared: declared}.String()
	e.taken.Location = Path + "/" + e.taken.ReplayKey
}

// readable says why an event of a run cannot be read; nil: it can. What a supplier sends is evidence however broken it is, what
// its connector says is not: and the log is no place for the secret that a credential may turn out to be.
func readable(tells run.Kind, ev *delivery.Event) *offer.Fault {
	if ev.Attributes["runid"] == "" {
		return &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: "ce_missing_attribute", Path: "runid", Message: "an event of a run names it in the extension runid"}
	}
	_, fault := run.ParseEvent(tells, ev.Data, ev.Time)
	return fault
}

// produce writes the records of events and waits until all replicas in sync have them, for as long as Kafka may take. A client
// that leaves meanwhile stops nothing: what it has sent is whole. What Kafka does not answer in time may yet be written; sent
// again, it is a repeat.
func (s *Stage) produce(ctx context.Context, events []event, headers []kgo.RecordHeader) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Produce)
	defer cancel()
	type answer struct {
		event  int
		record *kgo.Record
		err    error
	}
	answers := make(chan answer, len(events)) // nobody who answers late has to wait
	waiting := map[int]bool{}
	for i := range events {
		if rec := events[i].record; rec != nil {
			rec.Headers = append(rec.Headers, headers...)
			waiting[i] = true
			s.kafka.TryProduce(ctx, rec, func(r *kgo.Record, err error) { answers <- answer{i, r, err} })
		}
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			delete(waiting, a.event)
			e := &events[a.event]
			if a.err != nil {
				e.problem = s.notWritten(e.feed.Topics[0], a.err)
				continue
			}
			e.taken.Topic, e.taken.Partition, e.taken.Offset = e.feed.Topics[0], a.record.Partition, a.record.Offset
		case <-ctx.Done():
			for i := range waiting {
				events[i].problem = s.notWritten(events[i].feed.Topics[0], ctx.Err())
			}
			return
		}
	}
}

func (s *Stage) notWritten(topic string, err error) *Problem {
	s.log.Warn("cannot write to Kafka", "topic", topic, "error", err)
	if errors.Is(err, kerr.MessageTooLarge) {
		return problem(codeTooLarge, "the topic takes no record of this size: send the file by the attribute dataref, or have the topic's max.message.bytes raised (offerlog topics apply)")
	}
	return unavailable("Kafka is out of reach or has no room; send the same again")
}

// await waits until the taken events have their outcomes, and not longer than wait or than this process runs. What has none by
// then is answered as taken.
func (s *Stage) await(ctx context.Context, tenant string, events []event, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	topics := map[string]kafka.Topic{}
	standing := map[receipt.Standpoint]*event{}
	var records []settle.Record
	var positions []receipt.Position
	for i := range events {
		e := &events[i]
		if e.problem != nil {
			continue
		}
		t, known := topics[e.taken.Topic]
		if !known {
			var err error
			if t, err = kafka.Describe(ctx, s.kafka, s.cluster.Topic(e.taken.Topic), false); err != nil {
				return err
			}
			topics[e.taken.Topic] = t
		}
		at := receipt.Position{TopicID: t.ID, Partition: e.taken.Partition, Offset: e.taken.Offset}
		records, positions = append(records, settle.Record{Topic: e.taken.Topic, Position: at}), append(positions, at)
		standing[receipt.Standpoint{Topic: e.taken.Topic, Partition: e.taken.Partition, Offset: e.taken.Offset}] = e
	}
	if err := settle.Stored(ctx, s.pool, records); err != nil {
		if ctx.Err() != nil {
			return nil // not in time
		}
		return err
	}
	return postgres.AsTenant(ctx, s.pool, postgres.Audit, tenant, func(tx pgx.Tx) error {
		list, err := receipt.At(ctx, tx, positions)
		for i := range list {
			if e := standing[list[i].Standpoint]; e != nil {
				e.receipt = &list[i]
			}
		}
		return err
	})
}

// status is the answer to one event: 202 where it is taken, 200 where its outcome is known too.
func (e *event) status() (int, any) {
	switch {
	case e.problem != nil:
		return e.problem.Status, e.problem
	case e.receipt == nil:
		return http.StatusAccepted, &e.taken
	case e.receipt.Outcome == offer.Quarantined:
		p := setAside(e.receipt)
		return p.Status, p
	}
	return http.StatusOK, e.receipt
}

func writeOne(w http.ResponseWriter, e *event) error {
	if e.problem != nil {
		return e.problem
	}
	w.Header().Set("Location", e.taken.Location)
	status, body := e.status()
	contentType := "application/json"
	if _, isProblem := body.(*Problem); isProblem {
		contentType = "application/problem+json"
	}
	writeJSON(w, status, contentType, body)
	return nil
}

// A BatchItem is the answer to one event of a batch; one of its members Taken, Problem and Receipt is there.
type BatchItem struct {
	Item    int               `json:"item"` // its place in the batch, from 0
	Status  int               `json:"status"`
	Taken   *Taken            `json:"taken,omitempty"`
	Problem *Problem          `json:"problem,omitempty"`
	Receipt *receipt.Document `json:"receipt,omitempty"`
}

// writeBatch answers each event for itself, in the order of the batch. The status is 202 where all of them are taken, and else
// 207: who sees it looks at each. What is refused whole, or is a single event, is answered as one.
func writeBatch(w http.ResponseWriter, events []event) error {
	if len(events) == 1 && events[0].problem != nil {
		return events[0].problem
	}
	status := http.StatusAccepted
	items := make([]BatchItem, len(events))
	for i := range events {
		items[i].Item = i
		var body any
		items[i].Status, body = events[i].status()
		switch v := body.(type) {
		case *Taken:
			items[i].Taken = v
		case *Problem:
			items[i].Problem = v
			status = http.StatusMultiStatus
		case *receipt.Document:
			items[i].Receipt = v
		}
	}
	writeJSON(w, status, "application/json", struct {
		Items []BatchItem `json:"items"`
	}{items})
	return nil
}
