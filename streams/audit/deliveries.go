package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
)

// Bounds of a chunk of deliveries.
const (
	chunkRecords = 500
	chunkBytes   = 4 << 20
)

// An outcome is one row of audit_v1.outcome, with what the archive says of its payload.
type outcome struct {
	Offset           int64
	Item             int
	Tenant           string
	Delivery         *uuid.UUID
	Feed             string
	EventSource      string
	EventID          string
	EventType        string
	Declared         string // in place of EventID
	Outcome          string
	Canonicalization string
	Fingerprint      []byte
	Archived         bool
	ArtifactID       string
	MappingVersion   int // 0: no feed reads it
	Rows             int
	Saved            int
	Duplicate        int
	Old              int
	AmbiguousOrder   int
	Rejected         int
	Rejections       []offer.Fault
	RecordedAt       time.Time
	FirstSeq         int64
	LastSeq          int64
	SHA256           []byte `db:"sha256"` // of its entry; nil: it has none
	Kept             bool   // it, or another copy of the same refused payload, is archived
	Release          int    // of a correction: its number; 0: it is none
	ReleaseRow       int    // and its one row; 0: all
	Evidence         string // the object with the payload that it was read from
	EvidenceOffset   int64
	EvidenceItem     int
	Replayed         bool // it stands for what its event of replays named
}

// reread reports whether it is of a reading under another mapping version than the first.
func (o *outcome) reread() bool { return o.Outcome == string(offer.Reread) }

// where names the outcome.
func (o *outcome) where(lane int) Where {
	w := Where{Tenant: o.Tenant, Object: o.ArtifactID, Lane: lane, Offset: &o.Offset, Item: o.Item}
	if o.Delivery != nil {
		w.Delivery = o.Delivery.String()
	}
	return w
}

// A place is where an event stands in a partition.
type place struct {
	offset int64
	item   int
}

// deliveries goes through the input lanes: their outcomes are held against the records of the log, and what is stored of each
// accepted delivery against its payload, read again.
func (a *auditor) deliveries(ctx context.Context) error {
	if err := a.loadReadings(ctx); err != nil {
		return err
	}
	if a.log == nil {
		a.skip("there is no cluster to read", "I1")
	}
	if a.in.Mapper == nil {
		a.skip("there is no mapper to read payloads again", "I5")
	}
	for i := range a.lanes {
		l := &a.lanes[i]
		if l.Kind != input {
			continue
		}
		pieces, err := a.held(ctx, l)
		if err != nil {
			return err
		}
		at := int64(math.MinInt64)
		for _, p := range pieces {
			if err := a.withoutRecords(ctx, l, at, p.from); err != nil {
				return err
			}
			if err := a.withRecords(ctx, l, p.from, p.to); err != nil {
				return err
			}
			at = p.to
		}
		if err := a.withoutRecords(ctx, l, at, math.MaxInt64); err != nil {
			return err
		}
	}
	if a.unread > 0 {
		a.skip(fmt.Sprintf("%d deliveries: the log no longer holds their events, and the archive cannot be asked", a.unread), "I5")
	}
	return nil
}

// A stretch is the offsets [from, to) of a partition.
type stretch struct{ from, to int64 }

// held is what the log still holds of [start, next): all between its bounds, but for what an operator let go that the log has
// under other records by now.
func (a *auditor) held(ctx context.Context, l *lane) ([]stretch, error) {
	if a.log == nil {
		return nil, nil
	}
	t, ok := a.log.after[l.Topic]
	p := int(l.Partition)
	if !ok || t.ID != l.TopicID || p >= len(t.Starts) {
		a.skip(fmt.Sprintf("offsets %d to %d of %s/%d: the topic is not the one that was read", l.Start, l.Next, l.Topic, p), "I1")
		return nil, nil
	}
	from := min(max(l.Start, t.Starts[p]), l.Next)
	to := max(min(l.Next, t.Ends[p]), from)
	if from > l.Start {
		a.skip(fmt.Sprintf("offsets %d to %d of %s/%d: the log no longer holds them", l.Start, from, l.Topic, p), "I1")
	}
	if to < l.Next {
		a.skip(fmt.Sprintf("offsets %d to %d of %s/%d: the log ends before them", to, l.Next, l.Topic, p), "I1")
	}
	rows, err := a.tx.Query(ctx, statement("cuts"), l.ID)
	if err != nil {
		return nil, fmt.Errorf("read what lane %d goes on without: %w", l.ID, err)
	}
	pieces := []stretch{{from, to}}
	var cut stretch
	_, err = pgx.ForEachRow(rows, []any{&cut.from, &cut.to}, func() error {
		a.skip(fmt.Sprintf("offsets %d to %d of %s/%d: an operator let go what was read there; the log was cut off", cut.from, cut.to, l.Topic, p), "I1")
		last := &pieces[len(pieces)-1]
		rest := stretch{max(cut.to, last.from), last.to}
		last.to = max(min(cut.from, last.to), last.from)
		if rest.from < rest.to {
			pieces = append(pieces, rest)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what lane %d goes on without: %w", l.ID, err)
	}
	return pieces, nil
}

// withRecords goes through the outcomes of offsets that the log holds.
func (a *auditor) withRecords(ctx context.Context, l *lane, from, to int64) error {
	if from >= to {
		return nil
	}
	var (
		records []*kgo.Record
		size    int
	)
	chunk := func(upTo int64) error {
		outcomes, err := a.outcomes(ctx, l, from, upTo, math.MaxInt32)
		if err != nil {
			return err
		}
		items := a.compare(l, records, outcomes)
		records, size, from = records[:0], 0, upTo
		return a.readAgain(ctx, l, outcomes, items)
	}
	for r, err := range a.log.records(ctx, l.Topic, l.Partition, from, to) {
		if err != nil {
			return err
		}
		records = append(records, r)
		if size += len(r.Value); len(records) >= chunkRecords || size >= chunkBytes {
			if err := chunk(r.Offset + 1); err != nil {
				return err
			}
		}
	}
	return chunk(to)
}

// withoutRecords goes through the outcomes of offsets that the log does not hold.
func (a *auditor) withoutRecords(ctx context.Context, l *lane, from, to int64) error {
	for {
		outcomes, err := a.outcomes(ctx, l, from, to, chunkRecords)
		if err != nil || len(outcomes) == 0 {
			return err
		}
		for i := range outcomes {
			if o := &outcomes[i]; o.Offset < l.Start || o.Offset >= l.Next {
				a.found(Violation{Invariant: "I1", What: "an outcome is not of what the lane has stored", Where: o.where(l.ID),
					Detail: fmt.Sprintf("the lane has stored offsets %d to %d", l.Start, l.Next)})
			}
		}
		if err := a.readAgain(ctx, l, outcomes, nil); err != nil {
			return err
		}
		from = outcomes[len(outcomes)-1].Offset + 1
	}
}

func (a *auditor) outcomes(ctx context.Context, l *lane, from, to int64, limit int) ([]outcome, error) {
	rows, err := a.tx.Query(ctx, statement("outcomes"), l.ID, from, to, limit)
	if err != nil {
		return nil, fmt.Errorf("read the outcomes of lane %d: %w", l.ID, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[outcome])
	if err != nil {
		return nil, fmt.Errorf("read the outcomes of lane %d: %w", l.ID, err)
	}
	return list, nil
}

// compare holds the events of records against outcomes of the same offsets, and returns them by place.
func (a *auditor) compare(l *lane, records []*kgo.Record, outcomes []outcome) map[place]*delivery.Item {
	items := make(map[place]*delivery.Item, len(records))
	for _, r := range records {
		events := delivery.Decode(r)
		if len(events) == 0 {
			items[place{r.Offset, -1}] = &delivery.Item{} // an empty batch
		}
		for i := range events {
			items[place{r.Offset, events[i].Event.Item}] = &events[i]
		}
	}
	a.count("I1", int64(len(records)), "records")
	a.count("I1", int64(len(outcomes)), "outcomes")
	settled := make(map[place]bool, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		at := place{o.Offset, o.Item}
		settled[at] = true
		it := items[at]
		if it == nil {
			a.found(Violation{Invariant: "I1", What: "an outcome has no event in the log", Where: o.where(l.ID)})
			continue
		}
		if o.Replayed {
			delete(items, at) // the event is a reference; what it stands for is in the archive
			continue
		}
		a.compareEvidence(l, o, it)
	}
	for at, it := range items {
		if !settled[at] {
			a.found(Violation{Invariant: "I1", What: "an event of the log has no outcome", Detail: "event " + it.Event.ID,
				Where: Where{Topic: l.Topic, Partition: &l.Partition, Lane: l.ID, Offset: &at.offset, Item: at.item}})
		}
	}
	return items
}

// compareEvidence holds what the log holds against what was archived of it.
func (a *auditor) compareEvidence(l *lane, o *outcome, it *delivery.Item) {
	sum := offer.Sum(it.Raw)
	switch {
	case it.Raw == nil || it.Event.ByReference() || o.Outcome != string(offer.Accepted) && o.Outcome != string(offer.Quarantined):
	case !o.Kept:
		a.found(Violation{Invariant: "I4", What: "a payload is not archived", Where: o.where(l.ID)})
	case o.SHA256 != nil && !bytes.Equal(o.SHA256, sum[:]):
		a.found(Violation{Invariant: "I4", What: "an archived payload is not what the log holds", Where: o.where(l.ID),
			Detail: fmt.Sprintf("archived %x, the log has %s", o.SHA256, sum)})
	}
}

// A mappingVersion names a reading.
type mappingVersion struct {
	tenant, feed string
	version      int
}

// A reading is how the payloads of a feed were read under one version.
type reading struct {
	spec      mapping.Spec
	digest    offer.Digest
	connector string
	account   string
}

// loadReadings reads all mapping versions. One that is not what was applied reads nothing.
func (a *auditor) loadReadings(ctx context.Context) error {
	a.readings = map[mappingVersion]reading{}
	rows, err := a.tx.Query(ctx, statement("mappings"))
	if err != nil {
		return fmt.Errorf("read the mapping versions: %w", err)
	}
	var (
		v                  mappingVersion
		connector, account string
		sum, source        []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&v.tenant, &v.feed, &v.version, &connector, &account, &sum, &source}, func() error {
		r := reading{connector: connector, account: account, digest: digest(sum)}
		if err := json.Unmarshal(source, &r.spec); err == nil && r.spec.Digest() == r.digest {
			a.readings[v] = r
		} else {
			a.found(Violation{Invariant: "I5", What: "a mapping version is not what was applied", Where: Where{Tenant: v.tenant},
				Detail: fmt.Sprintf("feed %s version %d", v.feed, v.version)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the mapping versions: %w", err)
	}
	return nil
}

// An again is a delivery that is read again.
type again struct {
	*outcome
	reading
	request mapping.Request
}

// stated is the delivery that weak revisions are named by: that of a correction is the one that it corrects.
func (d *again) stated() offer.DeliveryID {
	key := d.replayKey()
	if d.Release > 0 {
		own := fmt.Sprintf(";release=%d", d.Release)
		key.EventID, key.Declared = strings.TrimSuffix(key.EventID, own), strings.TrimSuffix(key.Declared, own)
	}
	return key.ID()
}

// only leaves the row of a result that a correction is about, and of its rows, which it returns.
func only(res *mapping.Result, rows iter.Seq2[[]offer.Row, error], row int) iter.Seq2[[]offer.Row, error] {
	res.Rejected = slices.DeleteFunc(res.Rejected, func(f offer.Fault) bool { return f.Row != row })
	res.RowCount, res.Repeated = 1, 0
	return func(yield func([]offer.Row, error) bool) {
		for some, err := range rows {
			some = slices.DeleteFunc(slices.Clone(some), func(r offer.Row) bool { return r.Number != row })
			if !yield(some, err) {
				return
			}
		}
	}
}

func (d *again) replayKey() offer.ReplayKey {
	who := offer.Source{Tenant: d.Tenant, Connector: d.connector, Account: d.account}
	return offer.ReplayKey{Source: who, EventSource: d.EventSource, EventID: d.EventID, Declared: d.Declared}
}

// readAgain maps the payloads of accepted deliveries and holds history against what they say.
func (a *auditor) readAgain(ctx context.Context, l *lane, outcomes []outcome, items map[place]*delivery.Item) error {
	var (
		list []again
		size int
	)
	flush := func() error {
		err := a.mapAll(ctx, l, list)
		list, size = nil, 0
		return err
	}
	for i := range outcomes {
		d, ok, err := a.again(ctx, l, &outcomes[i], items)
		switch {
		case err != nil:
			return err
		case !ok:
			if err := a.passOver(ctx, l, &outcomes[i]); err != nil {
				return err
			}
			continue
		case d.request.Path != "":
			if err := a.mapLarge(ctx, l, &d); err != nil {
				return err
			}
			continue
		}
		list = append(list, d)
		if size += len(d.request.Payload); size >= chunkBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// again is the delivery of an outcome, ready to be read again; not ok: it is none that was read, or it cannot be.
func (a *auditor) again(ctx context.Context, l *lane, o *outcome, items map[place]*delivery.Item) (d again, ok bool, err error) {
	if a.in.Mapper == nil || o.Outcome != string(offer.Accepted) && !o.reread() || o.MappingVersion == 0 || o.Delivery == nil {
		return d, false, nil
	}
	r, ok := a.readings[mappingVersion{o.Tenant, o.Feed, o.MappingVersion}]
	if !ok {
		a.found(Violation{Invariant: "I5", What: "a delivery was read under a mapping version that does not exist", Where: o.where(l.ID),
			Detail: fmt.Sprintf("feed %s version %d", o.Feed, o.MappingVersion)})
		return d, false, nil
	}
	d = again{outcome: o, reading: r}
	if ok, err = a.evidence(ctx, &d, items[place{o.Offset, o.Item}]); err == nil && !ok {
		a.unread++
	}
	return d, ok, err
}

// mapAll reads deliveries that are in memory.
func (a *auditor) mapAll(ctx context.Context, l *lane, list []again) error {
	if len(list) == 0 {
		return nil
	}
	requests, specs := make([]mapping.Request, len(list)), map[offer.Digest]mapping.Spec{}
	for i := range list {
		requests[i], specs[list[i].digest] = list[i].request, list[i].spec
	}
	results, err := a.in.Mapper.Map(ctx, specs, requests)
	if err != nil {
		return err
	}
	for i := range list {
		rows := func(yield func([]offer.Row, error) bool) { yield(results[i].Rows, nil) }
		if err := a.holdResult(ctx, l, &list[i], &results[i], rows); err != nil {
			return err
		}
	}
	return nil
}

// mapLarge reads a delivery whose payload is in a file, which it removes.
func (a *auditor) mapLarge(ctx context.Context, l *lane, d *again) error {
	defer func() { _ = os.Remove(d.request.Path) }() // what stays is temporary
	res, spool, err := a.in.Mapper.Spool(ctx, d.spec, d.request, "")
	if err != nil {
		return err
	}
	if spool == nil { // it has a fault
		return a.holdResult(ctx, l, d, &res, nil)
	}
	defer func() { _ = spool.Close() }() // it was only read
	return a.holdResult(ctx, l, d, &res, spool.Chunks())
}

// holdResult holds history against what a delivery says.
func (a *auditor) holdResult(ctx context.Context, l *lane, d *again, res *mapping.Result, rows iter.Seq2[[]offer.Row, error]) error {
	if fault := res.Fault; fault != nil {
		a.found(Violation{Invariant: "I5", What: "an accepted delivery cannot be read", Where: d.where(l.ID), Detail: fault.Error()})
		return a.passOver(ctx, l, d.outcome)
	}
	if d.ReleaseRow > 0 {
		rows = only(res, rows, d.ReleaseRow)
	}
	return a.hold(ctx, l, d, res, rows)
}

// evidence finds the event of a delivery: in the log, or else in the archive, which keeps both its payload and what came
// around it. A large payload is read into a file.
func (a *auditor) evidence(ctx context.Context, d *again, it *delivery.Item) (ok bool, err error) {
	var (
		ev     delivery.Event
		path   string
		length int64
	)
	switch {
	case it != nil && !it.Event.ByReference(): // where its data lies, other data may lie by now
		ev = it.Event
	case a.in.Archive == nil || d.Evidence == "":
		return false, nil // told as not checked, or under I4
	default:
		ev, path, length, err = a.kept(ctx, d)
		if damageOf(err) != "" {
			return false, nil // told under I4
		}
		if err != nil {
			return false, err
		}
	}
	d.request = mapping.Request{Spec: d.digest, Canonicalization: d.Canonicalization, Payload: ev.Data, HasData: ev.HasData,
		ContentType: ev.ContentType, Attributes: ev.Attributes, EventTime: ev.Time, Path: path, Length: length}
	return true, nil
}

// largeBytes is the payload from which on it is read into a file.
const largeBytes = 4 << 20

// kept reads the archived event of a delivery; path is the file of a large payload, which is the caller's to remove.
func (a *auditor) kept(ctx context.Context, d *again) (ev delivery.Event, path string, length int64, err error) {
	c, err := a.in.Archive.Open(ctx, d.Tenant, archive.Ref{Name: d.Evidence}, d.EvidenceOffset, d.EvidenceItem)
	if err != nil {
		return ev, "", 0, err
	}
	defer func() { _ = c.Close() }() // it was only read
	var payload []byte
	if c.Length > largeBytes {
		path, length, err = toFile(c)
	} else {
		payload, err = io.ReadAll(c)
	}
	if err != nil {
		return ev, "", 0, err
	}
	if ev, err = delivery.FromEnvelope(c.Envelope, payload); err != nil && path != "" {
		_ = os.Remove(path) // what stays is temporary
	}
	return ev, path, length, err
}

// toFile reads a payload into a temporary file, which nobody else may read.
func toFile(c *archive.Content) (path string, length int64, err error) {
	file, err := os.CreateTemp("", "offerlog-audit-*")
	if err != nil {
		return "", 0, err
	}
	length, err = io.Copy(file, c)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name()) // what stays is temporary
		return "", 0, err
	}
	return file.Name(), length, nil
}
