package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/pkg/shadow"
	"github.com/offerlog/offerlog/pkg/snapshot"
	"github.com/offerlog/offerlog/streams"
)

// A Remap shows what comes of reading deliveries under another mapping version, before it is done.
type Remap struct {
	Archive Archive
	Mapper  Mapper
	Spool   string // a folder for large payloads
	// Read is told how many deliveries are read, after each batch.
	Read func(n int)
}

// A Preview is what would come of a remap, as history stands.
type Preview struct {
	Deliveries  int            `json:"deliveries"`            // that were not read under the version
	Reread      int            `json:"reread"`                // of them, those that it can read
	Quarantined map[string]int `json:"quarantined,omitempty"` // and those that it cannot, by reason and detail
	Rows        int            `json:"rows"`
	Rejected    map[string]int `json:"rejected,omitempty"` // rows, by reason and detail
	Added       int64          `json:"observations"`       // that history would get
	Digest      offer.Digest   `json:"digest"`             // of their ids and contents, in any order

	Offers   int            `json:"offers"`   // that the deliveries have claims of, by the old reading or the new
	ForSale  int            `json:"for_sale"` // of them, as it stands
	Appears  int            `json:"appears"`
	Vanishes int            `json:"vanishes"`
	Changes  int            `json:"changes"`
	Repriced int            `json:"repriced"`         // of Changes: price, currency, unit or breaks
	Fields   map[string]int `json:"fields,omitempty"` // how many offers change in each
	// Examples are the first changes of each sort, by account and record.
	Examples []shadow.Change `json:"examples"`
}

// examples bounds those of each sort.
const examples = 20

// priced are the fields by which an offer costs something else.
var priced = map[string]bool{"price": true, "per": true, "unit": true, "currency": true, "price_breaks": true}

// remapBatch is how many deliveries are read at once.
const remapBatch = 100

// Preview reads what a replay of the selection would, by the same statements, into a shadow of history, and compares what the offers
// show. What cannot be is a fault. tx is one of postgres.Aside.
func (m *Remap) Preview(ctx context.Context, tx pgx.Tx, tenant string, sel replay.Selection) (p Preview, fault *offer.Fault, err error) {
	p = Preview{Quarantined: map[string]int{}, Rejected: map[string]int{}, Fields: map[string]int{}, Examples: []shadow.Change{}}
	registry, err := feed.Load(ctx, tx)
	if err != nil {
		return p, nil, err
	}
	if registry.Feed(tenant, sel.Feed) == nil {
		return p, refusal("/feed", "the tenant has no feed %q: offerlog feed list names those that there are", sel.Feed), nil
	}
	b := &batch{}
	if fault, err := newSettlement(b, nil, registry).inForce(ctx, tx, tenant, sel.Feed, sel.Mapping); err != nil || fault != nil {
		return p, fault, err
	}
	// All of them before the shadow is there, which has other tables under the names that this asks for.
	var refs []replay.Ref
	r := replay.Run{Tenant: tenant, Selection: sel}
	if r.Stretches, err = replay.Stretches(ctx, tx, tenant, &sel); err != nil {
		return p, nil, err
	}
	for last := false; !last; {
		var more []replay.Ref
		if more, last, err = r.Next(ctx, tx, 5000); err != nil {
			return p, nil, err
		}
		refs = append(refs, more...)
	}
	p.Deliveries = len(refs)
	var now time.Time
	if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return p, nil, fmt.Errorf("read the clock: %w", err)
	}
	stands, err := shadow.Begin(ctx, tx)
	if err != nil {
		return p, nil, err
	}
	stage := New(nil, kafka.Cluster{}, m.Archive, m.Mapper, Config{Spool: m.Spool}, slog.New(slog.DiscardHandler))
	w := &worker{Stage: stage, registry: registry}
	held := lane.Held{Span: lane.Span{Lane: shadow.Lane}, RecordedAt: now}
	var made []snapshot.Reading
	for at := 0; at < len(refs); at += remapBatch {
		some := refs[at:min(at+remapBatch, len(refs))]
		if err := w.reread(ctx, tx, tenant, sel.Mapping, some, at, &held, &made, &p); err != nil {
			return p, nil, err
		}
		m.Read(at + len(some))
	}
	if p.Added, p.Digest, err = shadow.Added(ctx, tx); err != nil {
		return p, nil, err
	}
	return p, nil, shadow.Compare(ctx, tx, stands, p.count)
}

// reread reads deliveries as a batch of references to them is read, in the shadow's lane, which it moves, and adds to the readings made.
func (w *worker) reread(ctx context.Context, tx pgx.Tx, tenant string, version int, refs []replay.Ref, first int, held *lane.Held, made *[]snapshot.Reading, p *Preview) error {
	b := &batch{}
	defer b.discard()
	loaded := int64(0)
	for i, ref := range refs {
		e := &event{Place: receipt.Place{Lane: shadow.Lane, Offset: int64(first + i)}, topic: streams.Replays,
			ref: &Replay{Tenant: tenant, Mapping: version, Lane: ref.Lane, Offset: ref.Offset, Item: ref.Item, Release: ref.Release, Row: ref.Row}}
		b.events = append(b.events, e)
		kept, ok, err := receipt.KeptAt(ctx, tx, tenant, ref.Place)
		if err == nil {
			err = w.put(ctx, e, e.ref, kept, ok, &loaded)
		}
		if err != nil {
			return err
		}
	}
	under, err := w.readings(ctx, tx, b)
	if err != nil {
		return err
	}
	var keys []receipt.Key
	for _, e := range b.events {
		if w.route(e, under); e.key != nil {
			keys = append(keys, *e.key)
		}
	}
	known, err := receipt.Find(ctx, tx, keys)
	if err != nil {
		return err
	}
	if err := w.mapAll(ctx, b, known); err != nil {
		return err
	}
	if err := w.bring(ctx, tx, b); err != nil {
		return err
	}
	st := newSettlement(b, []lane.Held{*held}, w.registry)
	st.standing, st.readBefore = known, *made
	if err := st.findReadings(ctx, tx); err != nil {
		return err
	}
	st.settleEvents()
	if err := st.settleRows(ctx, tx, w.cfg.ChunkRows); err != nil {
		return err
	}
	accounts, claimed := b.snapshotAccounts(w.registry), st.claimedNumbers()
	if err := snapshot.Record(ctx, tx, claimed, slices.Collect(maps.Keys(accounts))); err != nil {
		return err
	}
	if err := st.implyDeletions(ctx, tx, accounts, claimed); err != nil {
		return err
	}
	*made = append(*made, st.readings()...)
	st.number()
	if err := st.recordDecisions(ctx, tx); err != nil {
		return err
	}
	held.Sequence = st.held[0].Sequence
	for _, at := range st.attempts {
		p.add(at)
	}
	return nil
}

// bring has the shadow hold what the rows of a batch meet, and what the deliveries have claimed so far, or those that they correct.
func (w *worker) bring(ctx context.Context, tx pgx.Tx, b *batch) error {
	var (
		deliveries []offer.DeliveryID
		offers     []offer.OfferID
	)
	for _, e := range b.events {
		if e.key == nil || e.feed == nil || e.fault != nil {
			continue
		}
		deliveries = append(deliveries, e.key.Delivery)
		if e.corrects() {
			for n := range e.ref.Release {
				deliveries = append(deliveries, e.correction(n))
			}
		}
		for some, err := range e.rows() {
			if err != nil {
				return &spoolError{err}
			}
			for i := range some {
				offers = append(offers, offer.Key{Tenant: e.tenant, Account: e.feed.Account, Record: some[i].Record}.ID())
			}
		}
	}
	return shadow.Bring(ctx, tx, deliveries, offers)
}

// add counts what came of a delivery.
func (p *Preview) add(at *receipt.Attempt) {
	named := func(f *offer.Fault) string {
		if f.Detail != "" {
			return f.Reason + "/" + f.Detail
		}
		return f.Reason
	}
	if at.Outcome == offer.Quarantined {
		p.Quarantined[named(at.Fault)]++
		return
	}
	p.Reread++
	p.Rows += at.Rows
	for i := range at.Rejections {
		p.Rejected[named(&at.Rejections[i])]++
	}
}

// count counts what comes of an offer.
func (p *Preview) count(c shadow.Change) {
	p.Offers++
	if c.Was != nil && !c.Was.Deleted {
		p.ForSale++
	}
	n := 0
	switch c.What {
	case "":
		return
	case shadow.Appears:
		p.Appears++
		n = p.Appears
	case shadow.Vanishes:
		p.Vanishes++
		n = p.Vanishes
	case shadow.Changes:
		p.Changes++
		n = p.Changes
		repriced := false
		for _, field := range c.Fields {
			p.Fields[field]++
			repriced = repriced || priced[field]
		}
		if repriced {
			p.Repriced++
		}
	}
	if n <= examples {
		p.Examples = append(p.Examples, c)
	}
}
