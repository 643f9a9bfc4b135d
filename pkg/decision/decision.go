// Package decision keeps what was decided about claims after they were made: which of them count.
//
// It owns the table decision. A decision is about a subject:
//
//   - a run, for the claims that name it (history.Claim.Run): that it is complete, that the brake holds it, that an operator
//     released or rejected it. A delivery that is a run of one is named by its own id.
//   - an observation: that a correction supersedes it, or that an operator takes it out.
//   - a delivery, for what it claims: that an operator takes it out.
//   - a feed, for what it claims: that it is suspended.
//   - an item, as claims of an offer have it: that it is another one, by a link.
//   - a moment of a tenant: that it has come. What was claimed for later counts from then on, and what was claimed until then
//     no more.
//   - a reading of a delivery under another mapping version than its first: from then on older ones of it do not count.
//   - a mapping version of a feed, for what was read under it: that an operator takes it out of force.
//   - a horizon, how far back a feed remembers deletions: up to when they are collected.
//
// Decisions are only added. Those of a subject are numbered from 1 under its lock, and among those that a vector of numbers
// covers the one with the greatest number counts, for the claims that are there and for those that come later. So decisions
// of two lanes need no common clock, and a view that has applied a lane up to some number knows which ones count.
//
// A decision is an event too. It takes the next number of a lane after the claims that it follows from, and goes to every
// partition of observations, where the projector folds the offers that it concerns again. Ingest alone writes decisions:
// they are true with the commit of the batch that they follow from.
package decision

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
)

//go:embed count.sql
var countSQL string

//go:embed record.sql
var recordSQL string

//go:embed link.sql
var linkSQL string

//go:embed moment.sql
var momentSQL string

//go:embed collected.sql
var collectedSQL string

//go:embed list.sql
var listSQL string

//go:embed last.sql
var lastSQL string

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Kind says what a subject is.
type Kind string

// Kinds of subjects.
const (
	Run         Kind = "run"
	Observation Kind = "observation"
	Delivery    Kind = "delivery"
	Feed        Kind = "feed"
	Moment      Kind = "due"
	Horizon     Kind = "horizon"
	Item        Kind = "item"
	Reading     Kind = "reading"
	Mapping     Kind = "mapping"
)

// Kinds are all of them.
var Kinds = []Kind{Run, Observation, Delivery, Feed, Moment, Horizon, Item, Reading, Mapping}

// A Subject is what a decision is about.
type Subject struct {
	Tenant string
	Kind   Kind
	ID     uuid.UUID
}

// A Verdict says what was decided. The list is closed.
type Verdict string

// Verdicts.
const (
	Completed  Verdict = "completed"  // of a run: each of its pages is there
	Braked     Verdict = "braked"     // of a run: it is complete, and would change more than its feed allows
	Released   Verdict = "released"   // of a run, by an operator
	Rejected   Verdict = "rejected"   // of a run, by an operator
	Superseded Verdict = "superseded" // of an observation: a correction took its place
	Retracted  Verdict = "retracted"  // of an observation, a delivery or a mapping version, by an operator
	Restored   Verdict = "restored"   // likewise: it counts as if nothing had been decided
	Suspended  Verdict = "suspended"  // of a feed, by an operator
	Resumed    Verdict = "resumed"    // of a feed, by an operator
	Due        Verdict = "due"        // of a moment: it has come
	Collected  Verdict = "collected"  // of a feed's horizon: what was deleted before it is not shown any more
	Linked     Verdict = "linked"     // of an item, by an operator
	Reread     Verdict = "reread"     // of a reading: it was made
	Unlinked   Verdict = "unlinked"   // of an item, by an operator: it is what claims say
)

// A Standing says how claims count.
type Standing int16

// Standings. Of several claims of one observation the greatest is its own.
const (
	NotCounting Standing = 0
	Partial     Standing = 1 // they count, as a part of a run that is not whole: the offer is flagged
	Counting    Standing = 2
)

// A Decision is one row.
type Decision struct {
	Subject
	N          int // from 1, among those of the subject
	Lane       int
	Seq        int64
	Verdict    Verdict
	Standing   Standing          // of the subject's claims
	Offer      offer.OfferID     // of an observation, and of an item:
	ItemWas    offer.Item        // what claims of the offer say,
	Item       offer.Item        // and what that means
	Delivery   offer.DeliveryID  // of a reading: whose
	Mapping    int               // of a reading, and of a mapping version: which one
	Account    string            // of a feed, a reading, a mapping version and a complete snapshot
	AsOf       *int64            // and when it was taken, in nanoseconds; nil: it implies no deletions
	Feed       string            // likewise
	Moment     int64             // that has come, in nanoseconds since 1970 UTC; of other kinds 0
	Collected  time.Time         // of a horizon: deletions that were recorded before it are collected
	Reason     string            // an operator's
	Actor      string            // who commanded it; "": it follows from deliveries
	Command    *offer.DeliveryID // nil: nobody commanded it
	RecordedAt time.Time
}

// OfFeed is a feed as a subject.
func OfFeed(tenant, feed string) Subject {
	return Subject{tenant, Feed, offer.Derive("feed", tenant, feed)}
}

// OfItem is an item, as claims of an offer have it, as a subject.
func OfItem(of offer.Key, was offer.Item) Subject {
	return Subject{of.Tenant, Item, offer.Derive("item", append([]string{of.ID().String()}, was.Fields()...)...)}
}

// OfReading is a reading of a delivery as a subject.
func OfReading(tenant string, of offer.DeliveryID, mapping int) Subject {
	return Subject{tenant, Reading, offer.Derive("reading", of.String(), strconv.Itoa(mapping))}
}

// OfMapping is a mapping version of a feed as a subject.
func OfMapping(tenant, feed string, version int) Subject {
	return Subject{tenant, Mapping, offer.Derive("mapping", tenant, feed, strconv.Itoa(version))}
}

// OfMoment is a moment of a tenant as a subject, in nanoseconds since 1970 UTC.
func OfMoment(tenant string, ns int64) Subject {
	return Subject{tenant, Moment, offer.Derive("moment", tenant, strconv.FormatInt(ns, 10))}
}

// OfHorizon is how far back a feed remembers deletions, as a subject.
func OfHorizon(tenant, feed string) Subject {
	return Subject{tenant, Horizon, offer.Derive("horizon", tenant, feed)}
}

// LastLink returns the item that a link gives the subject, an item, by now; zero: none does.
func LastLink(ctx context.Context, tx pgx.Tx, of Subject) (offer.Item, error) {
	var item []string
	err := tx.QueryRow(ctx, linkSQL, of.Tenant, of.ID).Scan(&item)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return offer.Item{}, fmt.Errorf("find the link of item %s: %w", of.ID, err)
	}
	return offer.ItemOf(item), nil
}

// LastMoment returns the latest moment of a tenant that is decided to have come; nil: none is.
func LastMoment(ctx context.Context, tx pgx.Tx, tenant string) (ns *int64, err error) {
	if err := tx.QueryRow(ctx, momentSQL, tenant).Scan(&ns); err != nil {
		return nil, fmt.Errorf("find the last moment of tenant %s: %w", tenant, err)
	}
	return ns, nil
}

// LastCollected returns up to when a horizon has collected; the zero time: nothing yet.
func LastCollected(ctx context.Context, tx pgx.Tx, horizon Subject) (before time.Time, err error) {
	var last *time.Time
	if err := tx.QueryRow(ctx, collectedSQL, horizon.Tenant, horizon.ID).Scan(&last); err != nil {
		return before, fmt.Errorf("find up to when horizon %s has collected: %w", horizon.ID, err)
	}
	if last != nil {
		before = *last
	}
	return before, nil
}

// Key is the key of the decision's event.
func (d *Decision) Key() string { return offer.JoinKey(d.Tenant, string(d.Kind), d.ID.String()) }

// ParseKey returns the subject that the key of an event names.
func ParseKey(key string) (Subject, error) {
	parts, err := offer.SplitKey(key)
	if err != nil {
		return Subject{}, fmt.Errorf("parse the key of a decision: %w", err)
	}
	if len(parts) != 3 || !slices.Contains(Kinds, Kind(parts[1])) {
		return Subject{}, fmt.Errorf("parse the key of a decision %q: want tenant/kind/id", key)
	}
	id, err := uuid.Parse(parts[2])
	if err != nil {
		return Subject{}, fmt.Errorf("parse the key of a decision %q: %w", key, err)
	}
	return Subject{parts[0], Kind(parts[1]), id}, nil
}

// EventID is a function of what the decision is, so the same work done again has the same id.
func (d *Decision) EventID() uuid.UUID {
	return offer.Derive("decision", d.Tenant, string(d.Kind), d.ID.String(), strconv.Itoa(d.N))
}

// A Document is the JSON form of a decision: the event's body, and what commands print.
type Document struct {
	Tenant     string     `json:"tenant"`
	Kind       Kind       `json:"kind"`
	Subject    string     `json:"subject"`
	N          int        `json:"n"`
	Verdict    Verdict    `json:"verdict"`
	Standing   Standing   `json:"standing"`
	AsOf       string     `json:"as_of,omitempty"`  // a complete snapshot's
	Moment     string     `json:"moment,omitempty"` // that has come
	Feed       string     `json:"feed,omitempty"`   // of a horizon, a reading and a mapping version
	Delivery   string     `json:"delivery,omitempty"`
	Mapping    int        `json:"mapping_version,omitempty"`
	Collected  string     `json:"collected,omitempty"`
	ItemWas    offer.Item `json:"item_was,omitzero"` // what claims of the offer say
	Item       offer.Item `json:"item,omitzero"`     // and what that means
	Reason     string     `json:"reason,omitempty"`
	Actor      string     `json:"actor,omitempty"`
	Command    string     `json:"command,omitempty"`
	RecordedAt string     `json:"recorded_at"`
}

// Document returns the JSON form of d.
func (d *Decision) Document() Document {
	doc := Document{Tenant: d.Tenant, Kind: d.Kind, Subject: d.ID.String(), N: d.N, Verdict: d.Verdict, Standing: d.Standing,
		ItemWas: d.ItemWas, Item: d.Item, Reason: d.Reason, Actor: d.Actor, RecordedAt: offer.TimeOf(d.RecordedAt).Text}
	if d.AsOf != nil {
		doc.AsOf = offer.TimeOf(time.Unix(0, *d.AsOf)).Text
	}
	if d.Kind == Moment {
		doc.Moment = offer.TimeOf(time.Unix(0, d.Moment)).Text
	}
	if d.Kind == Horizon {
		doc.Feed, doc.Collected = d.Feed, offer.TimeOf(d.Collected).Text
	}
	if d.Kind == Reading || d.Kind == Mapping {
		doc.Feed, doc.Mapping = d.Feed, d.Mapping
	}
	if d.Kind == Reading {
		doc.Delivery = d.Delivery.String()
	}
	if d.Command != nil {
		doc.Command = d.Command.String()
	}
	return doc
}

// Body is the event's JSON.
func (d *Decision) Body() ([]byte, error) { return json.Marshal(d.Document()) }

// fieldEnd parts the fields of an item on their way: no text of an item holds it.
const fieldEnd = "\x1f"

// Record stores decisions, in their order, and gives each its N. The caller holds the locks of their subjects; where it does
// not, and another transaction was first, the error is postgres.ErrLostRace.
func Record(ctx context.Context, tx pgx.Tx, decisions []*Decision) error {
	n := len(decisions)
	if n == 0 {
		return nil
	}
	var (
		tenants, kinds, verdicts, accounts = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		feeds, reasons, actors             = make([]string, n), make([]string, n), make([]string, n)
		was, is                            = make([]string, n), make([]string, n)
		subjects                           = make([]uuid.UUID, n)
		offers, commands, deliveries       = make([]uuid.NullUUID, n), make([]uuid.NullUUID, n), make([]uuid.NullUUID, n)
		mappings                           = make([]*int, n)
		ns, lanes                          = make([]int, n), make([]int, n)
		standings                          = make([]int16, n)
		seqs                               = make([]int64, n)
		asOf, moments                      = make([]*int64, n), make([]*int64, n)
		collected                          = make([]*time.Time, n)
		recorded                           = make([]time.Time, n)
	)
	for i, d := range decisions {
		tenants[i], subjects[i] = d.Tenant, d.ID
	}
	count, err := counts(ctx, tx, tenants, subjects)
	if err != nil {
		return fmt.Errorf("count the decisions on %d subjects: %w", n, err)
	}
	for i, d := range decisions {
		at := subject{d.Tenant, d.ID}
		count[at]++
		d.N = count[at]
		kinds[i], ns[i], lanes[i], seqs[i], verdicts[i], standings[i] = string(d.Kind), d.N, d.Lane, d.Seq, string(d.Verdict), int16(d.Standing)
		if d.Kind == Item {
			was[i], is[i] = strings.Join(d.ItemWas.Fields(), fieldEnd), strings.Join(d.Item.Fields(), fieldEnd)
		}
		if d.Kind == Observation || d.Kind == Item {
			offers[i] = uuid.NullUUID{UUID: uuid.UUID(d.Offer), Valid: true}
		}
		if d.Kind == Reading {
			deliveries[i] = uuid.NullUUID{UUID: uuid.UUID(d.Delivery), Valid: true}
		}
		if d.Kind == Reading || d.Kind == Mapping {
			mappings[i] = &d.Mapping
		}
		if d.Command != nil {
			commands[i] = uuid.NullUUID{UUID: uuid.UUID(*d.Command), Valid: true}
		}
		if d.Kind == Moment {
			moments[i] = &d.Moment
		}
		if d.Kind == Horizon {
			collected[i] = &d.Collected
		}
		accounts[i], asOf[i], feeds[i], reasons[i], actors[i], recorded[i] = d.Account, d.AsOf, d.Feed, d.Reason, d.Actor, d.RecordedAt
	}
	tag, err := tx.Exec(ctx, recordSQL, tenants, subjects, ns, kinds, lanes, seqs, verdicts, standings, offers, accounts, asOf, feeds, moments, collected, was, is, reasons, actors, commands, recorded,
		deliveries, mappings)
	if err == nil && tag.RowsAffected() != int64(n) {
		err = postgres.ErrLostRace
	}
	if err != nil {
		return fmt.Errorf("record %d decisions: %w", n, err)
	}
	return nil
}

type subject struct {
	tenant string
	id     uuid.UUID
}

func counts(ctx context.Context, q Querier, tenants []string, subjects []uuid.UUID) (map[subject]int, error) {
	rows, err := q.Query(ctx, countSQL, tenants, subjects)
	if err != nil {
		return nil, err
	}
	count := map[subject]int{}
	var (
		s subject
		n int
	)
	_, err = pgx.ForEachRow(rows, []any{&s.tenant, &s.id, &n}, func() error { count[s] = n; return nil })
	return count, err
}

// Last returns the standings that the last decisions on subjects of a tenant give their claims, by id; where none was made there
// is none.
func Last(ctx context.Context, tx pgx.Tx, tenant string, subjects []uuid.UUID) (map[uuid.UUID]Standing, error) {
	rows, err := tx.Query(ctx, lastSQL, tenant, subjects)
	if err != nil {
		return nil, fmt.Errorf("find the last decisions on %d subjects: %w", len(subjects), err)
	}
	last := make(map[uuid.UUID]Standing, len(subjects))
	var (
		id uuid.UUID
		s  Standing
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &s}, func() error { last[id] = s; return nil }); err != nil {
		return nil, fmt.Errorf("find the last decisions on %d subjects: %w", len(subjects), err)
	}
	return last, nil
}

// List returns the decisions on subjects of the transaction's tenant, by subject and number.
func List(ctx context.Context, q Querier, subjects []uuid.UUID) ([]Decision, error) {
	rows, err := q.Query(ctx, listSQL, subjects)
	if err != nil {
		return nil, fmt.Errorf("list the decisions on %d subjects: %w", len(subjects), err)
	}
	list, err := pgx.CollectRows(rows, Scan)
	if err != nil {
		return nil, fmt.Errorf("list the decisions on %d subjects: %w", len(subjects), err)
	}
	return list, nil
}

// Scan reads a row with the columns that list.sql has.
func Scan(row pgx.CollectableRow) (d Decision, err error) {
	var (
		offerID, command uuid.NullUUID
		delivery         uuid.NullUUID
		mapping          *int
		moment           *int64
		collected        *time.Time
		was, is          []string
	)
	if err := row.Scan(&d.Tenant, &d.ID, &d.N, &d.Kind, &d.Lane, &d.Seq, &d.Verdict, &d.Standing, &offerID, &d.Account, &d.AsOf, &d.Feed, &moment, &collected, &was, &is, &d.Reason,
		&d.Actor, &command, &d.RecordedAt, &delivery, &mapping); err != nil {
		return d, err
	}
	d.Offer, d.ItemWas, d.Item = offer.OfferID(offerID.UUID), offer.ItemOf(was), offer.ItemOf(is)
	if d.Delivery = offer.DeliveryID(delivery.UUID); mapping != nil {
		d.Mapping = *mapping
	}
	if moment != nil {
		d.Moment = *moment
	}
	if collected != nil {
		d.Collected = *collected
	}
	if command.Valid {
		d.Command = new(offer.DeliveryID(command.UUID))
	}
	return d, nil
}

// InForce is the decision that counts of each subject. It shares nothing with the SQL of package view, which a test and the
// audit hold against it.
type InForce struct {
	last     map[subject]Decision
	readings map[subject][]Decision // by delivery
}

// Latest picks those that count of decisions in any order: covers says which ones a vector of numbers has; nil: all.
func Latest(decisions iter.Seq[Decision], covers func(lane int, seq int64) bool) InForce {
	in := InForce{map[subject]Decision{}, map[subject][]Decision{}}
	for d := range decisions {
		at := subject{d.Tenant, d.ID}
		if have, ok := in.last[at]; (covers == nil || covers(d.Lane, d.Seq)) && (!ok || d.N > have.N) {
			in.last[at] = d
		}
	}
	for _, d := range in.last {
		if d.Kind == Reading {
			of := subject{d.Tenant, uuid.UUID(d.Delivery)}
			in.readings[of] = append(in.readings[of], d)
		}
	}
	return in
}

// Claim is how a claim of a delivery, read under a mapping version, counts, and where it is one of a run, of the run.
func (in InForce) Claim(tenant string, delivery offer.DeliveryID, mapping int, run uuid.UUID, held bool) Standing {
	of := subject{tenant, uuid.UUID(delivery)}
	if d := in.last[of]; d.Kind == Delivery && d.Standing == NotCounting {
		return NotCounting
	}
	if in.readSince(of, mapping) {
		return NotCounting
	}
	switch d, ok := in.last[subject{tenant, run}]; {
	case run == uuid.Nil:
		return Counting
	case ok:
		return d.Standing
	case held:
		return NotCounting
	}
	return Partial
}

// readSince reports whether a delivery was read under a newer mapping version that is in force.
func (in InForce) readSince(of subject, mapping int) bool {
	for _, d := range in.readings[of] {
		if d.Mapping > mapping && !in.void(of.tenant, d.Feed, d.Mapping) {
			return true
		}
	}
	return false
}

// Read reports whether it is what a feed's mapping version reads that a delivery says.
func (in InForce) Read(tenant, feed string, delivery offer.DeliveryID, mapping int) bool {
	return !in.void(tenant, feed, mapping) && !in.readSince(subject{tenant, uuid.UUID(delivery)}, mapping)
}

// void reports whether a mapping version of a feed is out of force.
func (in InForce) void(tenant, feed string, version int) bool {
	d, ok := in.last[subject{tenant, OfMapping(tenant, feed, version).ID}]
	return ok && d.Standing == NotCounting
}

// Link is the item that a link gives claims of an offer which say another; zero: none does.
func (in InForce) Link(of offer.Key, was offer.Item) offer.Item {
	at := OfItem(of, was)
	if d := in.last[subject{at.Tenant, at.ID}]; d.Standing != NotCounting {
		return d.Item
	}
	return offer.Item{}
}

// Come returns the latest moment of a tenant of which a decision says that it has come; 0: none.
func (in InForce) Come(tenant string) (latest int64) {
	for _, d := range in.last {
		if d.Kind == Moment && d.Tenant == tenant {
			latest = max(latest, d.Moment)
		}
	}
	return latest
}

// Out reports whether decisions have taken an observation out of the count, or all that its feed claims, or all that was read
// under the observation's mapping version.
func (in InForce) Out(tenant, feed string, mapping int, id offer.ObservationID) bool {
	for _, of := range []subject{{tenant, uuid.UUID(id)}, {tenant, OfFeed(tenant, feed).ID}} {
		if d, ok := in.last[of]; ok && d.Standing == NotCounting {
			return true
		}
	}
	return in.void(tenant, feed, mapping)
}

// Collects reports whether a deletion that a feed has claimed, recorded at a time, is older than deletions are remembered.
func (in InForce) Collects(tenant, feed string, recorded time.Time) bool {
	d, ok := in.last[subject{tenant, OfHorizon(tenant, feed).ID}]
	return ok && recorded.Before(d.Collected)
}

// Snapshots is the newest snapshot that is complete and counts, of each account.
type Snapshots map[Account]Decision

// Snapshots returns those of the decisions in force.
func (in InForce) Snapshots() Snapshots {
	newest := Snapshots{}
	for _, d := range in.last {
		if d.AsOf == nil {
			continue
		}
		if at := (Account{d.Tenant, d.Account}); !newest.Replaced(at, d.ID, *d.AsOf) {
			newest[at] = d
		}
	}
	return newest
}

// Replaced reports whether a newer snapshot of the account counts than the run that was taken at that time.
func (s Snapshots) Replaced(at Account, run uuid.UUID, asOf int64) bool {
	d, ok := s[at]
	return ok && cmp.Or(cmp.Compare(*d.AsOf, asOf), bytes.Compare(d.ID[:], run[:])) > 0
}

// An Account is a supplier's of a tenant.
type Account struct{ Tenant, Name string }

// Compare orders accounts so that transactions lock common ones in one order.
func (a Account) Compare(b Account) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
}

// Sort orders subjects so that transactions lock common ones in one order.
func Sort(subjects []Subject) []Subject {
	slices.SortFunc(subjects, func(a, b Subject) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return slices.Compact(subjects)
}

// Groups parts subjects into those of one tenant and kind, in their order of Sort.
func Groups(subjects []Subject) [][]Subject {
	var groups [][]Subject
	at := map[Subject]int{} // without their ids
	for _, s := range Sort(subjects) {
		of := Subject{Tenant: s.Tenant, Kind: s.Kind}
		i, ok := at[of]
		if !ok {
			i = len(groups)
			at[of], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}
