package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/streams"
)

// read finds each event's feed, looks up the keys that are known, and maps the payloads. Nothing it finds decides: the
// look-up saves work, and tells under which canonicalization an earlier payload was fingerprinted.
func (w *worker) read(ctx context.Context, b *batch) error {
	if err := w.load(ctx, b); err != nil {
		return err
	}
	known := map[receipt.Key]receipt.Receipt{}
	err := postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		if w.registry, err = feed.Current(ctx, tx, w.registry); err != nil {
			return err
		}
		under, err := w.readings(ctx, tx, b)
		if err != nil {
			return err
		}
		var keys []receipt.Key
		for _, e := range b.events {
			w.route(e, under)
			if b.condemned != "" {
				e.feed, e.command = nil, nil
				e.fault = &offer.Fault{Reason: offer.ReasonCrashLoop, Message: b.condemned}
			}
			if e.key != nil {
				keys = append(keys, *e.key)
			}
		}
		known, err = receipt.Find(ctx, tx, keys)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the registry and known keys: %w", err)
	}
	if err := w.fetchAll(ctx, b); err != nil {
		return err
	}
	if err := w.mapAll(ctx, b, known); err != nil {
		return err
	}
	choose(b, known)
	return nil
}

// route finds who an event belongs to. Tenant, connector and account come from the feed's registration, never from the
// event; on the commands topic, which only operators and offerlog itself may write, the tenant is the event's word.
func (w *worker) route(e *event, under map[reading]*feed.Feed) {
	e.fault, e.feed, e.command, e.key, e.tenant = e.item.Fault, nil, nil, nil, offer.SystemTenant
	e.replay, e.run, e.page, e.pages, e.kind, e.told = offer.ReplayKey{}, "", 0, 0, "", nil
	if e.Item < 0 {
		return
	}
	ev := &e.item.Event
	if e.topic == streams.Commands {
		w.routeCommand(e)
		return
	}
	who, topic := offer.Source{Tenant: offer.SystemTenant}, e.topic
	if e.from != "" {
		topic = e.from
	}
	if e.ref != nil { // also where no feed expects it any more: it stays its tenant's
		who.Tenant, e.tenant = e.ref.Tenant, e.ref.Tenant
	}
	tells := streams.RunEvents[ev.Type]
	expects := w.registry.Route(topic, ev.Source)
	if e.readsAgain() {
		expects = under[e.reading()]
	}
	if f := expects; f != nil && e.fault == nil && (ev.Type == streams.DeliveryType || tells != "") && e.mayBe(f.Tenant) {
		e.feed, e.tenant, who, e.kind = f, f.Tenant, f.Who(), tells
		if tells == "" {
			e.replay.Declared, e.fault = f.Identity.Declare(f.Account, ev)
		}
		if e.replay.Declared != "" && e.corrects() {
			e.replay.Declared += suffix(e.ref.Release)
		}
	}
	if e.fault == nil {
		e.replay.Source, e.replay.EventSource, e.replay.EventID = who, ev.Source, ev.ID
		e.key = &receipt.Key{Tenant: who.Tenant, Delivery: e.replay.ID()}
	}
	switch {
	case e.fault != nil:
	case e.feed == nil && ev.Type != streams.DeliveryType && tells == "":
		e.fault = &offer.Fault{Reason: offer.ReasonUnknownFeed, Message: fmt.Sprintf("no feed expects events of type %q: a delivery has type %s", ev.Type, streams.DeliveryType)}
	case e.feed == nil:
		e.fault = &offer.Fault{Reason: offer.ReasonUnknownFeed, Message: fmt.Sprintf("no feed expects source %q on topic %s: apply one with offerlog feed apply", ev.Source, topic)}
	default:
		e.routeRun()
	}
	if e.kind != "" && e.fault == nil {
		e.readRunEvent()
	}
}

// readRunEvent reads what an event tells of its run.
func (e *event) readRunEvent() {
	if e.run == "" {
		e.fault = &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: "ce_missing_attribute", Path: "runid", Message: "an event of a run names it in the extension runid"}
		return
	}
	at := e.item.Event.Time
	if at.IsZero() {
		at = offer.TimeOf(e.retrieved)
	}
	told, fault := run.ParseEvent(e.kind, e.item.Event.Data, at)
	if e.fault = fault; fault == nil {
		told.Tenant, told.Run, told.Delivery = e.tenant, run.ID(e.tenant, e.feed.Name, e.run), e.key.Delivery
		e.told = &told
	}
}

func (w *worker) routeCommand(e *event) {
	ev := &e.item.Event
	if e.fault != nil {
		return
	}
	tenant := ev.Attributes[streams.ExtTenant]
	switch {
	case tenant == "":
		e.fault = &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: "ce_missing_attribute", Message: "a command names its tenant in the extension tenant"}
		return
	case commands[ev.Type] == nil:
		e.fault = &offer.Fault{Reason: offer.ReasonSchemaInvalid, Path: "type", Message: fmt.Sprintf("no command has type %q", ev.Type)}
		return
	}
	c, fault := commands[ev.Type](tenant, ev)
	if fault != nil {
		e.fault = fault
		return
	}
	e.command, e.tenant = c, tenant
	key := commandKey(tenant, ev)
	e.key = &key
}

// commandKey is the replay key of a command.
func commandKey(tenant string, ev *delivery.Event) receipt.Key {
	who := offer.Source{Tenant: tenant, Connector: streams.Commands}
	return receipt.Key{Tenant: tenant, Delivery: offer.ReplayKey{Source: who, EventSource: ev.Source, EventID: ev.ID}.ID()}
}

// maxRunBytes bounds a run id, which is part of a key as id and source are.
const maxRunBytes = 1024

// routeRun reads which page of which run the event is.
func (e *event) routeRun() {
	attributes := e.item.Event.Attributes
	run := attributes["runid"]
	page, okPage := pageNumber(attributes["page"])
	pages, okPages := pageNumber(attributes["pages"])
	switch {
	case len(run) > maxRunBytes:
		e.fault = &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: "ce_invalid_attribute", Path: "runid",
			Message: fmt.Sprintf("%d bytes: at most %d are taken", len(run), maxRunBytes)}
	case !okPage || !okPages:
		e.fault = &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: "ce_invalid_attribute", Message: "page and pages are whole numbers from 1"}
	default:
		e.run, e.page, e.pages = run, page, pages
	}
}

func pageNumber(s string) (n int, ok bool) {
	if s == "" {
		return 0, true
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && n <= 1<<20
}

// maxRejected is how many rows of a delivery may be invalid or contradict what stands, and it is still taken for the others: each is
// told with its place and has an entry in quarantine. What has more is another format than the feed declares, or an export under
// revisions of another one, and is set aside whole.
const maxRejected = 10_000

// mapAll maps the payloads of the events that a feed expects, also where something else is wrong with them: a repeat is
// known by its fingerprint. It fingerprints all others.
func (w *worker) mapAll(ctx context.Context, b *batch, known map[receipt.Key]receipt.Receipt) error {
	var expected []*event
	for _, e := range b.events {
		e.asked = ""
		if e.told != nil {
			e.mapped = mapping.Result{Fingerprint: e.told.Fingerprint(e.run)}
			continue
		}
		if e.feed == nil || e.key == nil || e.unread || e.kind != "" {
			e.mapped = mapping.Result{Fault: e.fault, Fingerprint: offer.Fingerprint{Canonicalization: offer.CanonicalBytes, Digest: e.sum()}}
			continue
		}
		if form := known[*e.key].Fingerprint.Canonicalization; form != offer.CanonicalRun {
			e.asked = form
		}
		expected = append(expected, e)
	}
	if err := w.mapEvents(ctx, expected); err != nil {
		return err
	}
	return w.mapEvents(ctx, ofOtherForm(expected))
}

// sum is the digest of the event's payload.
func (e *event) sum() offer.Digest {
	if e.data != nil {
		return e.data.Sum
	}
	return offer.Sum(e.item.Raw)
}

// largeBytes is the payload from which on a delivery's rows go through a spool: those of all others are held in memory.
const largeBytes = 4 << 20

// ofOtherForm returns the events that come after the first of their key and were not fingerprinted as that one was: two feeds
// may share an account and a source, and with them their keys. It asks for the fingerprints of the first.
func ofOtherForm(events []*event) (other []*event) {
	first := map[receipt.Key]string{} // canonicalizations of the keys that this batch may take
	for _, e := range events {
		if e.asked != "" {
			continue
		}
		form, seen := first[*e.key]
		switch {
		case !seen && e.fault == nil:
			first[*e.key] = e.fingerprint().Canonicalization
		case seen && form != e.fingerprint().Canonicalization:
			e.asked = form
			other = append(other, e)
		}
	}
	return other
}

// mapEvents maps the payloads of events, each as its feed says.
func (w *worker) mapEvents(ctx context.Context, events []*event) error {
	var (
		requests []mapping.Request
		owners   []*event
		specs    = map[offer.Digest]mapping.Spec{}
	)
	for _, e := range events {
		if e.data != nil || len(e.item.Event.Data) > largeBytes {
			if err := w.spool(ctx, e); err != nil {
				return err
			}
			continue
		}
		specs[e.feed.ReadingDigest] = e.feed.Reading
		owners, requests = append(owners, e), append(requests, e.request())
	}
	if len(requests) == 0 {
		return nil
	}
	results, err := w.mapper.Map(ctx, specs, requests)
	if err != nil {
		return fmt.Errorf("map %d deliveries: %w", len(requests), err)
	}
	for i, r := range results {
		owners[i].take(r)
	}
	return nil
}

// request is the event as the mapper reads it.
func (e *event) request() mapping.Request {
	ev := &e.item.Event
	r := mapping.Request{Spec: e.feed.ReadingDigest, Payload: ev.Data, HasData: ev.HasData, ContentType: ev.ContentType,
		Attributes: ev.Attributes, EventTime: ev.Time, Canonicalization: e.asked}
	if e.data != nil {
		r.Path, r.Length, r.HasData = e.data.Path, e.data.Length, true
	}
	return r
}

// take takes what the mapper says.
func (e *event) take(r mapping.Result) {
	e.mapped = r
	if e.fault == nil {
		e.fault = r.Fault
	}
	if e.corrects() && e.ref.Row > 0 {
		e.only(e.ref.Row)
		r = e.mapped
	}
	switch {
	case e.fault != nil:
	case e.overfull != nil:
		e.fault = e.overfull
	case e.feed.Policy.InvalidRow == feed.InvalidRowDelivery && len(r.Rejected) > 0:
		first := r.Rejected[0]
		e.fault = &first
	case len(r.Rejected) > maxRejected:
		e.fault = &offer.Fault{Reason: offer.ReasonMappingLimit, Message: fmt.Sprintf("%d rows or more are invalid, at most %d are told one by one; the first: %s",
			len(r.Rejected), maxRejected, r.Rejected[0].Error())}
	}
}

// choose marks the events whose payloads are kept: all but repeats, which add nothing to the evidence that the first copy
// left. Each copy of what is refused or contradicts the first is kept: it may be the one that is looked at.
func choose(b *batch, known map[receipt.Key]receipt.Receipt) {
	first := map[receipt.Key]offer.Fingerprint{} // of the keys that this batch may take
	for _, e := range b.events {
		e.archived = e.item.Raw != nil || e.data != nil || len(e.item.Event.Attributes) > 0
		if e.key == nil {
			continue
		}
		fp, seen := first[*e.key]
		r, taken := known[*e.key]
		switch {
		case e.readsAgain(): // what it was accepted from is its evidence
			e.archived = false
		case taken:
			e.archived = e.archived && r.Fingerprint != e.fingerprint()
		case e.fault != nil || e.command != nil: // the registry may yet refuse a command
		case !seen:
			first[*e.key] = e.fingerprint()
		case fp == e.fingerprint():
			e.archived = false
		}
	}
}

// keep writes the payloads that look new to the archive: one object for each tenant and partition, verified before anything
// refers to it.
func (w *worker) keep(ctx context.Context, b *batch) ([]archive.Stored, error) {
	type owner struct {
		tenant string
		lane   int
	}
	packs := map[owner]*archive.Pack{}
	var order []owner
	for _, e := range b.events {
		if !e.archived {
			continue
		}
		o := owner{e.tenant, e.Lane}
		p := packs[o]
		if p == nil {
			at := b.lanes[e.Lane]
			i, _ := slices.BinarySearchFunc(b.spans, e.Lane, func(sp lane.Span, id int) int { return cmp.Compare(sp.Lane, id) })
			p = &archive.Pack{Tenant: e.tenant, TopicID: at.lane.TopicID, Partition: at.lane.Partition, First: b.spans[i].From, Last: b.spans[i].To - 1}
			packs[o] = p
			order = append(order, o)
		}
		ev := e.item.Event
		ev.HasData = ev.HasData || e.data != nil
		envelope, err := ev.Envelope()
		if err != nil {
			return nil, fmt.Errorf("keep the evidence of %s at offset %d: %w", e.topic, e.Offset, err)
		}
		entry := archive.Entry{Offset: e.Offset, Item: e.Item, Envelope: envelope}
		if e.data != nil {
			entry.File, entry.Length, entry.Sum = e.data.Path, e.data.Length, e.data.Sum
		} else {
			entry.Payload, entry.Sum = e.item.Raw, offer.Sum(e.item.Raw)
		}
		p.Entries = append(p.Entries, entry)
	}
	stored := make([]archive.Stored, 0, len(packs))
	for _, o := range order {
		ref, err := w.archive.Write(ctx, packs[o])
		if err != nil {
			return nil, &archiveError{err}
		}
		stored = append(stored, archive.Stored{Pack: packs[o], Ref: ref})
	}
	return stored, nil
}

// An archiveError says that the evidence could not be kept: nothing may be stored, and the batch is tried again.
type archiveError struct{ err error }

func (e *archiveError) Error() string { return "keep the evidence: " + e.err.Error() }
func (e *archiveError) Unwrap() error { return e.err }
