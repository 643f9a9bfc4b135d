package ingest

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/snapshot"
)

// A reading is how a feed reads payloads under one of its mapping versions.
type reading struct {
	tenant, feed string
	version      int
}

// readsAgain reports whether the event has an accepted delivery read under another mapping version. It claims no key: the
// delivery's receipt stands, and so does what was read of it before.
func (e *event) readsAgain() bool { return e.ref != nil && e.ref.Mapping > 0 }

// reading is the one that such an event asks for.
func (e *event) reading() reading { return reading{e.ref.Tenant, e.fromFeed, e.ref.Mapping} }

// receiptKey is the event's key; the zero one where it has none.
func (e *event) receiptKey() receipt.Key {
	if e.key == nil {
		return receipt.Key{}
	}
	return *e.key
}

// readings are the feeds under the mapping versions that events of the batch ask for; one that is not known is absent.
func (w *worker) readings(ctx context.Context, tx pgx.Tx, b *batch) (map[reading]*feed.Feed, error) {
	under := map[reading]*feed.Feed{}
	for _, e := range b.events {
		if !e.readsAgain() {
			continue
		}
		r := e.reading()
		if _, known := under[r]; known {
			continue
		}
		f := w.registry.Feed(r.tenant, r.feed)
		if f == nil {
			continue
		}
		other, err := f.Under(ctx, tx, r.version)
		if errors.Is(err, feed.ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		under[r] = other
	}
	return under, nil
}

// findReadings looks up which of the readings that the batch asks for were made, and under which mapping versions the deliveries
// were accepted. Whoever makes one meanwhile takes its number, and this transaction begins again.
func (st *settlement) findReadings(ctx context.Context, tx pgx.Tx) error {
	var keys []receipt.Key
	asked := map[string][]uuid.UUID{}
	of := map[uuid.UUID]decision.Subject{}
	for _, e := range st.batch.events {
		if !e.readsAgain() || e.key == nil {
			continue
		}
		keys = append(keys, *e.key)
		s := decision.OfReading(e.tenant, e.key.Delivery, e.ref.Mapping)
		asked[e.tenant], of[s.ID] = append(asked[e.tenant], s.ID), s
	}
	if len(keys) == 0 {
		return nil
	}
	var err error
	if st.versions, err = receipt.Versions(ctx, tx, keys); err != nil {
		return err
	}
	for _, k := range keys { // the first reading of a delivery is one too
		s := decision.OfReading(k.Tenant, k.Delivery, st.versions[k])
		asked[k.Tenant], of[s.ID], st.read[s] = append(asked[k.Tenant], s.ID), s, true
	}
	if err := st.findCorrected(ctx, tx); err != nil {
		return err
	}
	for tenant, ids := range asked {
		made, err := decision.Last(ctx, tx, tenant, ids)
		if err != nil {
			return err
		}
		for id := range made {
			st.read[of[id]] = true
			st.decidedReadings[of[id]] = true
		}
	}
	return nil
}

// findCorrected notes which deliveries that are read again have a later correction as a whole: it took the place of all that they
// say, under whatever mapping version, also where it was read under this one before them.
func (st *settlement) findCorrected(ctx context.Context, tx pgx.Tx) error {
	var originals []quarantine.Key
	for _, e := range st.batch.events {
		if e.readsAgain() && e.key != nil {
			originals = append(originals, quarantine.Key{Tenant: e.tenant, Delivery: e.correction(0)})
		}
	}
	numbers, err := quarantine.Corrections(ctx, tx, originals)
	if err != nil {
		return err
	}
	var later []quarantine.Key
	of := map[quarantine.Key][]*event{}
	for _, e := range st.batch.events {
		if !e.readsAgain() || e.key == nil {
			continue
		}
		for _, n := range numbers[quarantine.Key{Tenant: e.tenant, Delivery: e.correction(0)}] {
			if n > e.ref.Release {
				k := quarantine.Key{Tenant: e.tenant, Delivery: e.correction(n)}
				later, of[k] = append(later, k), append(of[k], e)
			}
		}
	}
	whole, err := quarantine.Whole(ctx, tx, later)
	if err != nil {
		return err
	}
	for _, k := range whole {
		for _, e := range of[k] {
			st.corrected[e] = true
		}
	}
	return nil
}

// readAgain decides an event that has a delivery read under another mapping version. first is its receipt, where it has one. From
// a reading on, the older ones of the delivery do not count, as long as its mapping version is in force.
func (st *settlement) readAgain(e *event, at *receipt.Attempt, first receipt.Receipt, ok bool) {
	this := decision.OfReading(e.tenant, e.key.Delivery, e.ref.Mapping)
	switch fault := st.faultOf(e); {
	case !ok:
		st.setAside(e, at, &offer.Fault{Reason: offer.ReasonEvidenceUnavailable, Detail: "receipt_expired",
			Message: "the delivery has no receipt any more, so it is not known what else was read of it: a replay without a mapping version takes it anew"})
	case st.read[this]:
		at.Outcome, at.Accepted, at.Fingerprint = offer.Duplicate, &first.Place, first.Fingerprint
	case fault != nil:
		st.setAside(e, at, fault)
	default:
		at.Outcome, at.Accepted, at.Fingerprint = offer.Reread, &first.Place, first.Fingerprint
		st.tally(e, at)
		// A newer one than this is passed over by its own decision alone: where it is the first, that is made now.
		for _, version := range []int{st.versions[*e.key], e.ref.Mapping} {
			s := decision.OfReading(e.tenant, e.key.Delivery, version)
			if st.decidedReadings[s] || version < e.ref.Mapping {
				continue
			}
			st.read[s], st.decidedReadings[s] = true, true
			command := offer.DeliveryID(e.ref.Command)
			st.decide(e, decision.Decision{Subject: s, Verdict: decision.Reread, Standing: decision.Counting, Delivery: e.key.Delivery, Mapping: version,
				Feed: e.feed.Name, Account: e.feed.Account, Reason: e.ref.Reason, Actor: e.ref.Actor, Command: &command})
		}
	}
}

// reread are the deliveries that the batch has read under another mapping version, with the rows that were rejected.
func (st *settlement) reread() (list []quarantine.Reread) {
	for i, e := range st.batch.events {
		at := st.attempts[i]
		if at.Outcome != offer.Reread {
			continue
		}
		r := quarantine.Reread{Tenant: e.tenant, Delivery: e.key.Delivery}
		for _, f := range at.Rejections {
			r.Rejected = append(r.Rejected, f.Row)
		}
		list = append(list, r)
	}
	return list
}

// readings are the deliveries that the batch has read under another mapping version, as pages of snapshots.
func (st *settlement) readings() (list []snapshot.Reading) {
	for i, e := range st.batch.events {
		if at := st.attempts[i]; at.Outcome == offer.Reread {
			list = append(list, snapshot.Reading{Delivery: e.key.Delivery, Mapping: e.ref.Mapping, Rejected: at.Results.Rejected})
		}
	}
	return list
}
