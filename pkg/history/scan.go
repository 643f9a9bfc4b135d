package history

import (
	"encoding"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A Row receives the columns of an observation, in the order of the view observation_row.
type Row struct {
	o                                      Observation
	offer, id, delivery                    uuid.UUID
	ord, observedNS, retrievedNS           int64
	content, breaks, stock                 []byte
	mpn, manufacturer, revision, packaging *string
	condition, gtin, unit, currency        *string
	quantity, per, price, moq, leadTime    *string
	multiple, validFrom, validUntil        *string
	run                                    uuid.NullUUID
	due                                    *int64
}

// Into lists where a Scan puts the columns.
func (r *Row) Into() []any {
	o := &r.o
	return []any{&o.Key.Tenant, &r.offer, &o.Rank.Strong, &r.ord, &r.id, &o.Lane, &o.Seq, &r.delivery, &o.Row, &o.Feed, &o.Key.Account,
		&o.Key.Record, &o.RevisionKey, &o.MappingVersion, &o.WeakIdentity, &r.observedNS, &o.ObservedAt.Text, &r.retrievedNS,
		&o.RecordedAt, &r.content, &r.mpn, &r.manufacturer, &r.revision, &r.packaging, &r.condition, &r.gtin, &r.quantity, &r.unit,
		&r.per, &r.price, &r.currency, &r.breaks, &r.moq, &r.multiple, &r.leadTime, &r.stock, &r.validFrom, &r.validUntil, &o.Content.Deleted, &r.run, &o.Held,
		&r.due, &o.Unresolved}
}

// Observation returns what was scanned.
func (r *Row) Observation() (Observation, error) {
	o := r.o
	o.Offer, o.Delivery, o.Run = offer.OfferID(r.offer), offer.DeliveryID(r.delivery), r.run.UUID
	o.Rank.Order, o.Rank.Mapping, o.Rank.ID = r.ord, o.MappingVersion, offer.ObservationID(r.id)
	copy(o.Rank.Content[:], r.content)
	if o.Rank.Strong {
		o.SourceVersion = r.ord
	}
	o.ObservedAt.Nanos, o.RetrievedAt = r.observedNS, time.Unix(0, r.retrievedNS).UTC()
	if r.due != nil {
		o.Due = *r.due
	}
	c := &o.Content
	c.Item = offer.Item{MPN: text(r.mpn), Manufacturer: text(r.manufacturer), Revision: text(r.revision), Packaging: text(r.packaging),
		Condition: text(r.condition), GTIN: text(r.gtin)}
	c.Basis.Unit, c.Currency = text(r.unit), text(r.currency)
	for _, d := range []struct {
		from *string
		to   encoding.TextUnmarshaler
	}{{r.quantity, &c.Quantity}, {r.per, &c.Basis.Per}, {r.price, &c.Price}, {r.moq, &c.MOQ}, {r.multiple, &c.OrderMultiple},
		{r.leadTime, &c.LeadTimeDays}, {r.validFrom, &c.ValidFrom}, {r.validUntil, &c.ValidUntil}} {
		if err := d.to.UnmarshalText([]byte(text(d.from))); err != nil {
			return o, fmt.Errorf("read observation %s: %w", r.id, err)
		}
	}
	for _, l := range []struct {
		from []byte
		to   any
	}{{r.breaks, &c.PriceBreaks}, {r.stock, &c.Stock}} {
		if len(l.from) == 0 {
			continue
		}
		if err := json.Unmarshal(l.from, l.to); err != nil {
			return o, fmt.Errorf("read observation %s: %w", r.id, err)
		}
	}
	return o, nil
}

func scanEvent(row pgx.CollectableRow) (Event, error) {
	var (
		r                  Row
		number             int64
		lane, rowNo        *int
		seq, observed, got *int64
		delivery           *uuid.UUID
		weak               *bool
		observedAt         *string
		recorded           *time.Time
		run                uuid.NullUUID
		held               *bool
		due                *int64
	)
	if err := row.Scan(append(r.Into(), &lane, &seq, &delivery, &rowNo, &weak, &observed, &observedAt, &got, &recorded, &run, &held, &due, &number)...); err != nil {
		return Event{}, err
	}
	o, err := r.Observation()
	if err != nil || lane == nil {
		return Event{Observation: o}, err
	}
	s := &Claim{Lane: *lane, Seq: *seq, Delivery: offer.DeliveryID(*delivery), Row: *rowNo, WeakIdentity: *weak,
		ObservedAt: offer.Time{Nanos: *observed, Text: *observedAt}, RetrievedAt: time.Unix(0, *got).UTC(), RecordedAt: *recorded,
		Run: run.UUID, Held: *held}
	if due != nil {
		s.Due = *due
	}
	return Event{Observation: o, Sighting: s}, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
