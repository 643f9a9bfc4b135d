package audit

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
)

// claim is the statement that an event of history makes.
func claim(e *history.Event) *history.Claim {
	if e.Sighting != nil {
		return e.Sighting
	}
	return &e.Claim
}

// whereOf names an event of history.
func whereOf(e *history.Event) Where {
	c := claim(e)
	return Where{Tenant: e.Key.Tenant, Offer: e.Key.String(), Observation: e.Observation.ID().String(), Delivery: c.Delivery.String(), Row: c.Row, Lane: c.Lane, Seq: c.Seq}
}

// history returns the events after < number <= upTo of a lane, in order.
func (a *auditor) history(ctx context.Context, lane int, after, upTo int64) ([]history.Event, error) {
	rows, err := a.tx.Query(ctx, statement("history"), lane, after, upTo)
	if err != nil {
		return nil, fmt.Errorf("read the history of lane %d: %w", lane, err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e history.Event, err error) {
		var (
			o                   history.Row
			c                   history.Claim
			sighting            bool
			delivery            uuid.UUID
			retrieved, observed int64
			run                 uuid.NullUUID
		)
		if err := row.Scan(append(o.Into(), &sighting, &c.Lane, &c.Seq, &delivery, &c.Row, &c.WeakIdentity, &observed, &c.ObservedAt.Text,
			&retrieved, &c.RecordedAt, &run, &c.Held)...); err != nil {
			return e, err
		}
		if e.Observation, err = o.Observation(); err != nil || !sighting {
			return e, err
		}
		c.Delivery, c.ObservedAt.Nanos, c.RetrievedAt, c.Run = offer.DeliveryID(delivery), observed, time.Unix(0, retrieved).UTC(), run.UUID
		e.Sighting = &c
		return e, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the history of lane %d: %w", lane, err)
	}
	return events, nil
}

// A stretchOfClaims is what history holds under the numbers after < number <= upTo of a lane.
type stretchOfClaims struct {
	lane        int
	after, upTo int64
	events      []history.Event
}

// claimsFrom reads a stretch that begins with a number, or returns the last one if the number is in it: deliveries follow each other.
func (a *auditor) claimsFrom(ctx context.Context, l *lane, number int64) (stretchOfClaims, error) {
	if c := a.claims; c.lane == l.ID && number > c.after && number <= c.upTo {
		return c, nil
	}
	after, upTo := number-1, number-1+historyAtOnce
	events, err := a.history(ctx, l.ID, after, upTo)
	if err != nil {
		return stretchOfClaims{}, err
	}
	a.claims = stretchOfClaims{l.ID, after, upTo, events}
	return a.claims, nil
}

// claimsOf yields what history holds under the numbers of an outcome, in their order and some thousand at a time: a delivery may have a
// million rows. What is of another delivery is a violation.
func (a *auditor) claimsOf(ctx context.Context, l *lane, o *outcome) iter.Seq2[*history.Event, error] {
	return func(yield func(*history.Event, error) bool) {
		if o.FirstSeq == 0 || o.Delivery == nil {
			return
		}
		last := min(o.LastSeq, l.Sequence)
		for number := o.FirstSeq; number <= last; {
			some, err := a.claimsFrom(ctx, l, number)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range some.events {
				e := &some.events[i]
				switch c := claim(e); {
				case c.Seq < number || c.Seq > last:
				case e.Implied(): // no delivery states it; i5_implied holds it against its snapshot
				case uuid.UUID(c.Delivery) != *o.Delivery:
					a.found(Violation{Invariant: "I5", What: "history holds a claim of a delivery that did not make it", Where: whereOf(e)})
				case !yield(e, nil):
					return
				}
			}
			number = some.upTo + 1
		}
	}
}

// passOver looks only whether the claims under the numbers of an outcome are of its delivery.
func (a *auditor) passOver(ctx context.Context, l *lane, o *outcome) error {
	for _, err := range a.claimsOf(ctx, l, o) {
		if err != nil {
			return err
		}
	}
	return nil
}

// hold holds what is stored of a delivery against what its payload says.
func (a *auditor) hold(ctx context.Context, l *lane, d *again, res *mapping.Result, rows iter.Seq2[[]offer.Row, error]) error {
	a.count("I5", 1, "deliveries read again")
	a.count("I5", int64(res.RowCount), "rows")
	bad := func(row int, what, format string, args ...any) {
		w := d.where(l.ID)
		w.Row = row
		a.found(Violation{Invariant: "I5", What: what, Where: w, Detail: fmt.Sprintf(format, args...)})
	}
	if recorded := (offer.Fingerprint{Canonicalization: d.Canonicalization, Digest: digest(d.Fingerprint)}); res.Fingerprint != recorded && !d.reread() {
		a.found(Violation{Invariant: "I3", What: "the fingerprint of a delivery is not that of its payload", Where: d.where(l.ID),
			Detail: fmt.Sprintf("recorded %s, want %s", recorded, res.Fingerprint)})
	}
	if key := d.replayKey(); key.ID() != offer.DeliveryID(*d.Delivery) {
		a.found(Violation{Invariant: "I3", What: "a delivery is not the one that its replay key names", Where: d.where(l.ID),
			Detail: fmt.Sprintf("%s is of delivery %s", key, key.ID())})
	}
	if res.RowCount != d.Rows {
		bad(0, "a delivery has another number of rows", "%d are recorded, want %d", d.Rows, res.RowCount)
	}
	rejected := map[int]offer.Fault{}
	for _, f := range d.Rejections {
		rejected[f.Row] = f
	}
	for _, want := range res.Rejected {
		if f, ok := rejected[want.Row]; !ok || f.Reason != want.Reason || f.Detail != want.Detail {
			bad(want.Row, "a row that must be rejected is not, or for another reason", "want %s (%s)", want.Reason, want.Detail)
		}
		delete(rejected, want.Row)
	}
	own, sightings, err := a.holdRows(ctx, l, d, rows, rejected)
	if err != nil {
		return err
	}
	for row, f := range rejected {
		bad(row, "a row is rejected that its payload does not reject", "%v", &f)
	}
	if d.Saved+d.Old+d.AmbiguousOrder != own || d.Duplicate != sightings+res.Repeated || d.Rejected != len(d.Rejections) {
		bad(0, "the row counts of a delivery are not those of its claims", "%d saved, %d old, %d ambiguous_order, %d duplicate, %d rejected; history has %d observations and %d sightings, %d rows repeat others and %d are rejected",
			d.Saved, d.Old, d.AmbiguousOrder, d.Duplicate, d.Rejected, own, sightings, res.Repeated, len(d.Rejections))
	}
	return nil
}

// holdRows holds the claims of a delivery against its valid rows and returns how many are observations of its own and how
// many sightings. Of rejected it removes the conflicts that are ones. Rows have their numbers in their order, so that neither needs to be held.
func (a *auditor) holdRows(ctx context.Context, l *lane, d *again, rows iter.Seq2[[]offer.Row, error], rejected map[int]offer.Fault) (own, sightings int, err error) {
	claims, stop := iter.Pull2(a.claimsOf(ctx, l, d.outcome))
	defer stop()
	last := 0 // row
	next := func() (*history.Event, error) {
		for {
			e, err, ok := claims()
			if err != nil || !ok {
				return nil, err
			}
			if e.Sighting == nil {
				own++
			} else {
				sightings++
			}
			c := claim(e)
			a.have(groupOf(stageHistory, e.Key.Tenant, e.Feed, c.RecordedAt), claimDigest(e.Observation.ID(), e.Content.Digest(), c.Delivery, c.Row, c.ObservedAt))
			switch {
			case c.Row == last:
				a.found(Violation{Invariant: "I5", What: "a row makes two claims", Where: whereOf(e)})
			case c.Row < last:
				a.found(Violation{Invariant: "I5", What: "the claims of a delivery are not in the order of its rows", Where: whereOf(e), Detail: fmt.Sprintf("it follows row %d", last)})
			default:
				last = c.Row
				return e, nil
			}
		}
	}
	e, err := next()
	if err != nil {
		return 0, 0, err
	}
	// before tells of the claims below a row that they have none.
	before := func(row int) (err error) {
		for ; e != nil && claim(e).Row < row && err == nil; e, err = next() {
			w := whereOf(e)
			w.Object = d.ArtifactID
			a.found(Violation{Invariant: "I5", What: "a claim has no row in its payload", Where: w})
		}
		return err
	}
	var conflicts []history.Observation
	for some, err := range rows {
		if err != nil {
			return 0, 0, err
		}
		for i := range some {
			row := &some[i]
			if err := before(row.Number); err != nil {
				return 0, 0, err
			}
			var of *history.Event
			if e != nil && claim(e).Row == row.Number {
				of = e
			}
			if conflict := a.holdRow(l, d, row, of, rejected); conflict != nil {
				conflicts = append(conflicts, *conflict)
			}
			if of == nil {
				continue
			}
			if e, err = next(); err != nil {
				return 0, 0, err
			}
		}
	}
	if err := before(math.MaxInt); err != nil {
		return 0, 0, err
	}
	return own, sightings, a.conflicts(ctx, l, d, conflicts)
}

// holdRow holds the claim of a row, which may be nil, against it. Where the row is rejected as a conflict it removes that from rejected
// and returns what the row would claim.
func (a *auditor) holdRow(l *lane, d *again, row *offer.Row, e *history.Event, rejected map[int]offer.Fault) (conflict *history.Observation) {
	want := history.New(d.Feed, offer.Key{Tenant: d.Tenant, Account: d.account, Record: row.Record}, d.MappingVersion, d.stated(), d.replayKey().Weak(), row)
	want.Delivery = offer.DeliveryID(*d.Delivery)
	if revision, _, corrected := strings.Cut(revisionOf(e), ";release="); d.Release > 0 && corrected && revision == want.RevisionKey {
		want.Revise(e.RevisionKey)
	}
	contradicts := rejected[row.Number].Reason == offer.ReasonRevisionConflict
	if e != nil || !contradicts {
		a.want(groupOf(stageHistory, d.Tenant, d.Feed, d.RecordedAt), claimDigest(want.ID(), want.Rank.Content, want.Delivery, row.Number, want.ObservedAt))
	}
	switch {
	case contradicts && e == nil:
		delete(rejected, row.Number)
		return &want
	case e == nil:
		w := d.where(l.ID)
		w.Offer, w.Observation, w.Row = want.Key.String(), want.ID().String(), row.Number
		a.found(Violation{Invariant: "I5", What: "a row of a payload is in no observation and no sighting", Where: w})
	default:
		if differs := differences(e, &want); differs != "" {
			w := whereOf(e)
			w.Object = d.ArtifactID
			a.found(Violation{Invariant: "I5", What: "a claim is not what its payload says", Where: w, Detail: differs})
		}
	}
	return nil
}

// revisionOf is the revision that a claim states; "": there is none.
func revisionOf(e *history.Event) string {
	if e == nil {
		return ""
	}
	return e.RevisionKey
}

// differences says in what a claim is not the one that a row makes, "" where it is.
func differences(e *history.Event, want *history.Observation) string {
	o, c := &e.Observation, claim(e)
	switch {
	case o.Key != want.Key:
		return fmt.Sprintf("it is about %s, want %s", o.Key, want.Key)
	case o.Rank.Strong != want.Rank.Strong || o.Rank.Order != want.Rank.Order || o.RevisionKey != want.RevisionKey:
		return fmt.Sprintf("revision %s, want %s", o.RevisionKey, want.RevisionKey)
	case o.ID() != want.ID() || o.Rank.Mapping != want.Rank.Mapping:
		return fmt.Sprintf("observation %s, want %s", o.ID(), want.ID())
	case c.WeakIdentity != want.WeakIdentity:
		return fmt.Sprintf("its delivery's identity is %s, want %s", offer.Strength(!c.WeakIdentity), offer.Strength(!want.WeakIdentity))
	case c.ObservedAt != want.ObservedAt:
		return fmt.Sprintf("observed at %s, want %s", c.ObservedAt, want.ObservedAt)
	case o.Content.Digest() != want.Rank.Content || o.Rank.Content != want.Rank.Content:
		return fmt.Sprintf("content %s with digest %s, want %s", o.Content.Digest(), o.Rank.Content, want.Rank.Content)
	}
	return ""
}

// conflicts holds the rows that were rejected for a revision that stands with other content against what stands.
func (a *auditor) conflicts(ctx context.Context, l *lane, d *again, rows []history.Observation) error {
	if len(rows) == 0 {
		return nil
	}
	tenants, offers, ids := make([]string, len(rows)), make([][16]byte, len(rows)), make([][16]byte, len(rows))
	for i, o := range rows {
		tenants[i], offers[i], ids[i] = o.Key.Tenant, o.Offer, o.ID()
	}
	found, err := a.tx.Query(ctx, statement("standing"), tenants, offers, ids)
	if err != nil {
		return fmt.Errorf("read what rows conflict with: %w", err)
	}
	standing := map[offer.ObservationID]offer.Digest{}
	var (
		id      uuid.UUID
		content []byte
	)
	if _, err := pgx.ForEachRow(found, []any{&id, &content}, func() error { standing[offer.ObservationID(id)] = digest(content); return nil }); err != nil {
		return fmt.Errorf("read what rows conflict with: %w", err)
	}
	for _, o := range rows {
		if content, ok := standing[o.ID()]; !ok || content == o.Rank.Content {
			w := d.where(l.ID)
			w.Offer, w.Observation, w.Row = o.Key.String(), o.ID().String(), o.Row
			a.found(Violation{Invariant: "I5", What: "a row is rejected as a conflict with what does not contradict it", Where: w, Detail: "revision " + o.RevisionKey})
		}
	}
	return nil
}
