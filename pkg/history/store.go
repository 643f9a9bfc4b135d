package history

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
)

//go:embed between.sql
var betweenSQL string

//go:embed made.sql
var madeSQL string

//go:embed has.sql
var hasSQL string

//go:embed item.sql
var itemSQL string

//go:embed look.sql
var lookSQL string

//go:embed claim.sql
var claimSQL string

//go:embed sight.sql
var sightSQL string

//go:embed lane.sql
var laneSQL string

//go:embed list.sql
var listSQL string

//go:embed list_offers.sql
var listOffersSQL string

//go:embed list_delivery.sql
var listDeliverySQL string

//go:embed accounts.sql
var accountsSQL string

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Standing is what history holds about one row before it is claimed.
type Standing struct {
	Known        bool         // an observation of this identity exists
	Content      offer.Digest // its content
	HasNewest    bool         // the offer has observations
	Newest       offer.Rank   // Strong and Order of the newest
	Contradicted bool         // another revision of the same order says something else
	Claimed      bool         // the row's delivery has made a claim of this order before
}

// Look returns the standing of each of rows, as the commits that tx sees left it.
func Look(ctx context.Context, tx pgx.Tx, rows []*Observation) ([]Standing, error) {
	n := len(rows)
	var (
		nos       = make([]int, n)
		tenants   = make([]string, n)
		offers    = make([][16]byte, n)
		strongs   = make([]bool, n)
		ords      = make([]int64, n)
		ids       = make([][16]byte, n)
		revisions = make([]string, n)
		contents  = make([][]byte, n)
		delivered = make([][16]byte, n)
	)
	for i, o := range rows {
		nos[i], tenants[i], offers[i], strongs[i], ords[i] = i, o.Key.Tenant, [16]byte(o.Offer), o.Rank.Strong, o.Rank.Order
		ids[i], revisions[i], contents[i] = [16]byte(o.ID()), o.RevisionKey, o.Rank.Content[:]
		delivered[i] = [16]byte(o.Delivery)
	}
	found, err := tx.Query(ctx, lookSQL, nos, tenants, offers, strongs, ords, ids, revisions, contents, delivered)
	if err != nil {
		return nil, fmt.Errorf("look up %d rows in history: %w", n, err)
	}
	standings := make([]Standing, n)
	var (
		i                     int
		content               []byte
		strong                *bool
		ord                   *int64
		contradicted, claimed bool
	)
	_, err = pgx.ForEachRow(found, []any{&i, &content, &strong, &ord, &contradicted, &claimed}, func() error {
		s := Standing{Known: content != nil, Contradicted: contradicted, Claimed: claimed}
		copy(s.Content[:], content)
		if strong != nil {
			s.HasNewest, s.Newest = true, offer.Rank{Strong: *strong, Order: *ord}
		}
		standings[i] = s
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up %d rows in history: %w", n, err)
	}
	return standings, nil
}

// Append stores observations with their first claims. It returns postgres.ErrLostRace where another transaction has
// stored one of them since Look: the numbers given to this batch no longer fit, and its transaction begins again.
func Append(ctx context.Context, tx pgx.Tx, obs []*Observation) error {
	if len(obs) == 0 {
		return nil
	}
	slices.SortFunc(obs, func(a, b *Observation) int {
		return cmp.Or(cmp.Compare(a.Key.Tenant, b.Key.Tenant), bytes.Compare(a.Offer[:], b.Offer[:]), a.Rank.CompareOrder(b.Rank),
			bytes.Compare(a.Rank.ID[:], b.Rank.ID[:]))
	})
	n := len(obs)
	var (
		tenants, feeds, accounts, records, revisions, observedAt     = texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
		mpn, manufacturer, itemRevision, packaging, condition, gtin  = texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
		quantity, unit, per, price, currency, breaks, moq, leadTimes = texts(n), texts(n), texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
		offers, ids, deliveries                                      = make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
		strong, weak, deleted, held, unresolved                      = make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n)
		multiples, stocks, validFrom, validUntil                     = texts(n), texts(n), texts(n), texts(n)
		runs                                                         = make([]uuid.NullUUID, n)
		due, until                                                   = make([]*int64, n), make([]*int64, n)
		ord, seq, observedNS, retrievedNS                            = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		lanes, rows, mappings                                        = make([]int, n), make([]int, n), make([]int, n)
		recorded                                                     = make([]time.Time, n)
		contents                                                     = make([][]byte, n)
	)
	for i, o := range obs {
		c := &o.Content
		tenants[i], offers[i], strong[i], ord[i], ids[i] = o.Key.Tenant, [16]byte(o.Offer), o.Rank.Strong, o.Rank.Order, [16]byte(o.ID())
		lanes[i], seq[i], deliveries[i], rows[i] = o.Lane, o.Seq, [16]byte(o.Delivery), o.Row
		feeds[i], accounts[i], records[i], revisions[i] = o.Feed, o.Key.Account, o.Key.Record, o.RevisionKey
		mappings[i], weak[i] = o.MappingVersion, o.WeakIdentity
		observedNS[i], observedAt[i], retrievedNS[i], recorded[i] = o.ObservedAt.Nanos, o.ObservedAt.Text, o.RetrievedAt.UnixNano(), o.RecordedAt
		contents[i] = o.Rank.Content[:]
		mpn[i], manufacturer[i], itemRevision[i] = c.Item.MPN, c.Item.Manufacturer, c.Item.Revision
		packaging[i], condition[i], gtin[i] = c.Item.Packaging, c.Item.Condition, c.Item.GTIN
		quantity[i], unit[i], per[i], price[i], currency[i] = c.Quantity.String(), c.Basis.Unit, c.Basis.Per.String(), c.Price.String(), c.Currency
		moq[i], multiples[i], leadTimes[i], deleted[i] = c.MOQ.String(), c.OrderMultiple.String(), c.LeadTimeDays.String(), c.Deleted
		validFrom[i], validUntil[i] = c.ValidFrom.Text, c.ValidUntil.Text
		runs[i], held[i], due[i], unresolved[i] = nullable(o.Run), o.Held, moment(o.Due), o.Unresolved
		if !c.ValidUntil.IsZero() {
			until[i] = &c.ValidUntil.Nanos
		}
		var err error
		if breaks[i], err = list(c.PriceBreaks); err == nil {
			stocks[i], err = list(c.Stock)
		}
		if err != nil {
			return fmt.Errorf("append %d observations: %w", n, err)
		}
	}
	tag, err := tx.Exec(ctx, claimSQL, tenants, offers, strong, ord, ids, lanes, seq, deliveries, rows, feeds, accounts, records,
		revisions, mappings, weak, observedNS, observedAt, retrievedNS, recorded, contents, mpn, manufacturer, itemRevision,
		packaging, condition, gtin, quantity, unit, per, price, currency, breaks, moq, multiples, leadTimes,
		stocks, validFrom, validUntil, deleted, runs, held, due, until, unresolved)
	if err != nil {
		return fmt.Errorf("append %d observations: %w", n, err)
	}
	if tag.RowsAffected() != int64(n) {
		return fmt.Errorf("append %d observations, %d of them known by now: %w", n, int64(n)-tag.RowsAffected(), postgres.ErrLostRace)
	}
	return nil
}

// list is the JSON of a list; an empty one is "".
func list[T any](members []T) (string, error) {
	if len(members) == 0 {
		return "", nil
	}
	b, err := json.Marshal(members)
	return string(b), err
}

func texts(n int) []string { return make([]string, n) }

func nullable(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// moment is nil for none.
func moment(ns int64) *int64 {
	if ns == 0 {
		return nil
	}
	return &ns
}

// A Sighting restates Of with the claim.
type Sighting struct {
	Claim
	Of *Observation // whose key, order and id are used
}

// Sight stores sightings.
func Sight(ctx context.Context, tx pgx.Tx, sightings []Sighting) error {
	if len(sightings) == 0 {
		return nil
	}
	n := len(sightings)
	var (
		lanes, rows                    = make([]int, n), make([]int, n)
		seq, ord, observed, retrieved  = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		tenants, observedAt            = texts(n), texts(n)
		offers, observations, delivery = make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
		strong, weak, held             = make([]bool, n), make([]bool, n), make([]bool, n)
		runs                           = make([]uuid.NullUUID, n)
		due                            = make([]*int64, n)
		recorded                       = make([]time.Time, n)
	)
	for i, s := range sightings {
		lanes[i], seq[i], tenants[i], offers[i] = s.Lane, s.Seq, s.Of.Key.Tenant, [16]byte(s.Of.Offer)
		strong[i], ord[i], observations[i] = s.Of.Rank.Strong, s.Of.Rank.Order, [16]byte(s.Of.ID())
		delivery[i], rows[i], weak[i] = [16]byte(s.Delivery), s.Row, s.WeakIdentity
		observed[i], observedAt[i], retrieved[i], recorded[i] = s.ObservedAt.Nanos, s.ObservedAt.Text, s.RetrievedAt.UnixNano(), s.RecordedAt
		runs[i], held[i], due[i] = nullable(s.Run), s.Held, moment(s.Due)
	}
	_, err := tx.Exec(ctx, sightSQL, lanes, seq, tenants, offers, strong, ord, observations, delivery, rows, weak, observed,
		observedAt, retrieved, recorded, runs, held, due)
	if err != nil {
		return fmt.Errorf("store %d sightings: %w", n, err)
	}
	return nil
}

// ReadLane returns the events of a lane with after < number <= upTo, in order.
func ReadLane(ctx context.Context, q Querier, lane int, after, upTo int64) ([]Event, error) {
	rows, err := q.Query(ctx, laneSQL, lane, after, upTo)
	if err != nil {
		return nil, fmt.Errorf("read lane %d from history: %w", lane, err)
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("read lane %d from history: %w", lane, err)
	}
	return events, nil
}

// A Statement is an observation's identity.
type Statement struct {
	Offer offer.OfferID
	ID    offer.ObservationID
}

// Has reports whether a tenant's history holds an observation.
func Has(ctx context.Context, tx pgx.Tx, tenant string, s Statement) (has bool, err error) {
	if err := tx.QueryRow(ctx, hasSQL, tenant, uuid.UUID(s.Offer), uuid.UUID(s.ID)).Scan(&has); err != nil {
		return false, fmt.Errorf("look for observation %s: %w", s.ID, err)
	}
	return has, nil
}

// Between returns the deliveries of a tenant with claims behind one recorded moment and up to another, at most limit, by id.
func Between(ctx context.Context, tx pgx.Tx, tenant string, after, upTo tick.Tick, limit int) ([]offer.DeliveryID, error) {
	rows, err := tx.Query(ctx, betweenSQL, tenant, after.Lanes, after.UpTo, upTo.Lanes, upTo.UpTo, limit)
	if err != nil {
		return nil, fmt.Errorf("find the deliveries between ticks %d and %d: %w", after.N, upTo.N, err)
	}
	deliveries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (offer.DeliveryID, error) {
		var id uuid.UUID
		err := row.Scan(&id)
		return offer.DeliveryID(id), err
	})
	if err != nil {
		return nil, fmt.Errorf("find the deliveries between ticks %d and %d: %w", after.N, upTo.N, err)
	}
	return deliveries, nil
}

// Made returns the observations that deliveries of a tenant were the first to state.
func Made(ctx context.Context, q Querier, tenant string, deliveries []offer.DeliveryID) ([]Statement, error) {
	ids := make([][16]byte, len(deliveries))
	for i, d := range deliveries {
		ids[i] = [16]byte(d)
	}
	rows, err := q.Query(ctx, madeSQL, tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("find what %d deliveries have stated: %w", len(ids), err)
	}
	made, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Statement, error) {
		var o, id uuid.UUID
		err := row.Scan(&o, &id)
		return Statement{offer.OfferID(o), offer.ObservationID(id)}, err
	})
	if err != nil {
		return nil, fmt.Errorf("find what %d deliveries have stated: %w", len(ids), err)
	}
	return made, nil
}

// SaysItem reports whether an observation of the offer has the item.
func SaysItem(ctx context.Context, tx pgx.Tx, of offer.Key, item offer.Item) (says bool, err error) {
	if err := tx.QueryRow(ctx, itemSQL, of.Tenant, uuid.UUID(of.ID()), item.Fields()).Scan(&says); err != nil {
		return false, fmt.Errorf("look for an item of %s: %w", of, err)
	}
	return says, nil
}

// A Filter narrows List; what is empty matches all.
type Filter struct {
	Account  string
	Record   string
	Delivery *offer.DeliveryID // those that it claimed: was the first to state, or restated
	Limit    int
}

// List returns observations of the transaction's tenant by account and record, the newest of each offer first. A record or
// a delivery is found by key. Where there are more than the limit, the offers that are left out follow no order.
func List(ctx context.Context, q Querier, f Filter) (list []Observation, err error) {
	switch {
	case f.Delivery != nil:
		list, err = collect(ctx, q, listDeliverySQL, uuid.UUID(*f.Delivery), f.Account, f.Record, f.Limit)
	case f.Record != "":
		var offers [][16]byte
		if offers, err = OffersOf(ctx, q, f.Account, f.Record); err == nil {
			list, err = collect(ctx, q, listOffersSQL, offers, f.Limit)
		}
	default:
		list, err = collect(ctx, q, listSQL, f.Account, f.Limit)
	}
	if err != nil {
		return nil, fmt.Errorf("list observations: %w", err)
	}
	return list, nil
}

// OffersOf returns the ids of the offers of the transaction's tenant that a record can be of: that of the account, or one for
// each account that the tenant has feeds of.
func OffersOf(ctx context.Context, q Querier, account, record string) (offers [][16]byte, err error) {
	rows, err := q.Query(ctx, accountsSQL)
	if err != nil {
		return nil, err
	}
	var (
		tenant   string
		accounts []string
	)
	if _, err = pgx.ForEachRow(rows, []any{&tenant, &accounts}, func() error { return nil }); err != nil {
		return nil, err
	}
	if account != "" {
		accounts = []string{account}
	}
	for _, a := range accounts {
		offers = append(offers, [16]byte(offer.Key{Tenant: tenant, Account: a, Record: record}.ID()))
	}
	return offers, nil
}

func collect(ctx context.Context, q Querier, sql string, args ...any) ([]Observation, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Observation, error) {
		var r Row
		if err := row.Scan(r.Into()...); err != nil {
			return Observation{}, err
		}
		return r.Observation()
	})
}
