// Package quarantine keeps what was set aside: deliveries and rows that cannot be taken as they are, with their evidence.
//
// It owns the tables quarantine, quarantine_decision and replay. An entry is unique on replay key, fingerprint, row and whether
// the payload was refused or contradicts an accepted one, so another copy of the same payload is another attempt and no other
// entry. Nothing here ever changes what was accepted.
package quarantine

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed add.sql
var addSQL string

//go:embed resolve.sql
var resolveSQL string

//go:embed reread.sql
var rereadSQL string

//go:embed list.sql
var listSQL string

//go:embed caused.sql
var causedSQL string

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// An Entry is a delivery that was set aside, or one row of it (Fault.Row above 0).
type Entry struct {
	ID          uuid.UUID
	Tenant      string
	Delivery    *offer.DeliveryID // nil: the record has no replay key
	Feed        string
	Fault       offer.Fault
	EventSource string
	EventID     string
	Fingerprint offer.Fingerprint
	Lane        int // the first copy's place
	Offset      int64
	Item        int
	Archived    bool                 // its payload is in the archive, as entry (Offset, Item) of the lane
	Reading     int                  // the mapping version, where it is of a later reading than the first; it is not stored
	Content     *offer.Content       // of a row in conflict: what it claimed
	Observation *offer.ObservationID // and what it contradicts
	State       string               // open | released | rejected | resolved
	RecordedAt  time.Time
}

// identify derives the entry's id from what makes it one: replay key, fingerprint, row, and whether it is a refusal or a
// mismatch; for a record without a replay key its place in the log. A payload may be both, one after the other: refused at
// first, and a mismatch when it comes again after another one was accepted under its key. The refusal is resolved by then,
// the mismatch is open. What a reading under another mapping version refuses is an entry of its own.
func (e *Entry) identify() uuid.UUID {
	if e.Delivery == nil {
		return offer.Derive("quarantine", strconv.Itoa(e.Lane), strconv.FormatInt(e.Offset, 10), strconv.Itoa(e.Item))
	}
	kind := "refusal"
	if e.Fault.Reason == offer.ReasonReplayPayloadMismatch {
		kind = "mismatch"
	}
	if e.Reading > 0 {
		kind = "reading " + strconv.Itoa(e.Reading)
	}
	return offer.Derive("quarantine", e.Tenant, e.Delivery.String(), e.Fingerprint.String(), strconv.Itoa(e.Fault.Row), kind)
}

// stored is the form of Content in the table: what is not so is left out of it.
type stored struct {
	*offer.Content
	Deleted bool `json:"deleted,omitempty"`
}

// Add stores entries; one that is there already stays as it is.
func Add(ctx context.Context, tx pgx.Tx, entries []*Entry) error {
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		e.ID = e.identify()
	}
	slices.SortStableFunc(entries, func(a, b *Entry) int { // of two copies the first one stays
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.ID[:], b.ID[:]))
	})
	n := len(entries)
	var (
		tenants, feeds, reasons, details, messages  = texts(n), texts(n), texts(n), texts(n), texts(n)
		paths, sources, events, canonical, contents = texts(n), texts(n), texts(n), texts(n), texts(n)
		archived                                    = make([]bool, n)
		ids                                         = make([][16]byte, n)
		deliveries, observations                    = make([]pgtype.UUID, n), make([]pgtype.UUID, n)
		rows, lines, columns, lanes, items          = make([]int, n), make([]int, n), make([]int, n), make([]int, n), make([]int, n)
		offsets                                     = make([]int64, n)
		digests                                     = make([][]byte, n)
		recorded                                    = make([]time.Time, n)
	)
	for i, e := range entries {
		tenants[i], ids[i], feeds[i], rows[i] = e.Tenant, e.ID, e.Feed, e.Fault.Row
		if e.Delivery != nil {
			deliveries[i] = pgtype.UUID{Bytes: *e.Delivery, Valid: true}
		}
		reasons[i], details[i], messages[i] = e.Fault.Reason, e.Fault.Detail, e.Fault.Message
		lines[i], columns[i], paths[i] = e.Fault.Line, e.Fault.Column, e.Fault.Path
		sources[i], events[i] = e.EventSource, e.EventID
		if canonical[i] = e.Fingerprint.Canonicalization; canonical[i] != "" {
			digests[i] = e.Fingerprint.Digest[:]
		}
		lanes[i], offsets[i], items[i], archived[i], recorded[i] = e.Lane, e.Offset, e.Item, e.Archived, e.RecordedAt
		if e.Content != nil {
			b, err := json.Marshal(stored{e.Content, e.Content.Deleted})
			if err != nil {
				return fmt.Errorf("add %d entries to quarantine: %w", n, err)
			}
			contents[i] = string(b)
		}
		if e.Observation != nil {
			observations[i] = pgtype.UUID{Bytes: *e.Observation, Valid: true}
		}
	}
	_, err := tx.Exec(ctx, addSQL, tenants, ids, deliveries, feeds, rows, reasons, details, messages, lines, columns, paths, sources, events,
		canonical, digests, lanes, offsets, items, archived, contents, observations, recorded)
	if err != nil {
		return fmt.Errorf("add %d entries to quarantine: %w", n, err)
	}
	return nil
}

// Resolve closes the open entries of deliveries that were accepted after all: the cause was mended and they came again. A
// payload that contradicted an accepted one stays open, since no later copy answers for it.
func Resolve(ctx context.Context, tx pgx.Tx, tenants []string, deliveries []offer.DeliveryID) error {
	if len(deliveries) == 0 {
		return nil
	}
	ids := make([][16]byte, len(deliveries))
	for i, d := range deliveries {
		ids[i] = [16]byte(d)
	}
	if _, err := tx.Exec(ctx, resolveSQL, tenants, ids); err != nil {
		return fmt.Errorf("resolve the quarantine of %d deliveries: %w", len(deliveries), err)
	}
	return nil
}

// A Reread is an accepted delivery that was read under another mapping version.
type Reread struct {
	Tenant   string
	Delivery offer.DeliveryID
	Rejected []int // rows
}

// ResolveReread resolves what earlier readings of deliveries had set aside, whole or by row, and this one does not reject.
func ResolveReread(ctx context.Context, tx pgx.Tx, read []Reread) error {
	if len(read) == 0 {
		return nil
	}
	var (
		tenants, ofTenants       []string
		deliveries, ofDeliveries [][16]byte
		rows                     []int
	)
	for _, r := range read {
		tenants, deliveries = append(tenants, r.Tenant), append(deliveries, r.Delivery)
		for _, row := range r.Rejected {
			ofTenants, ofDeliveries, rows = append(ofTenants, r.Tenant), append(ofDeliveries, r.Delivery), append(rows, row)
		}
	}
	if _, err := tx.Exec(ctx, rereadSQL, tenants, deliveries, ofTenants, ofDeliveries, rows); err != nil {
		return fmt.Errorf("resolve what was set aside of %d deliveries: %w", len(read), err)
	}
	return nil
}

// A Filter narrows List; what is empty matches all.
type Filter struct {
	ID     *uuid.UUID
	Reason string
	Detail string
	Feed   string
	Since  time.Time // recorded then or later
	Open   bool
	Limit  int
}

// List returns entries of the transaction's tenant, the newest first.
func List(ctx context.Context, q Querier, f Filter) ([]Entry, error) {
	var since *time.Time
	if !f.Since.IsZero() {
		since = &f.Since
	}
	rows, err := q.Query(ctx, listSQL, f.ID, f.Reason, f.Open, f.Limit, f.Feed, f.Detail, since)
	if err != nil {
		return nil, fmt.Errorf("list the quarantine: %w", err)
	}
	entries, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("list the quarantine: %w", err)
	}
	return entries, nil
}

// Caused returns the open rows that were set aside because they contradict what a command of the transaction's tenant has taken out of
// the count, and nothing else claims: the oldest first.
func Caused(ctx context.Context, q Querier, command offer.DeliveryID) ([]Entry, error) {
	rows, err := q.Query(ctx, causedSQL, uuid.UUID(command))
	if err != nil {
		return nil, fmt.Errorf("find what command %s frees of quarantine: %w", command, err)
	}
	entries, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("find what command %s frees of quarantine: %w", command, err)
	}
	return entries, nil
}

// scan reads a row with the columns that the statements here have.
func scan(row pgx.CollectableRow) (e Entry, err error) {
	var (
		delivery, observation *uuid.UUID
		digest, content       []byte
	)
	err = row.Scan(&e.Tenant, &e.ID, &delivery, &e.Feed, &e.Fault.Row, &e.Fault.Reason, &e.Fault.Detail, &e.Fault.Message, &e.Fault.Line,
		&e.Fault.Column, &e.Fault.Path, &e.EventSource, &e.EventID, &e.Fingerprint.Canonicalization, &digest, &e.Lane, &e.Offset, &e.Item,
		&e.Archived, &content, &observation, &e.State, &e.RecordedAt)
	if err != nil {
		return e, err
	}
	copy(e.Fingerprint.Digest[:], digest)
	if delivery != nil {
		id := offer.DeliveryID(*delivery)
		e.Delivery = &id
	}
	if observation != nil {
		id := offer.ObservationID(*observation)
		e.Observation = &id
	}
	if content != nil {
		e.Content = new(offer.Content)
		err = json.Unmarshal(content, e.Content)
	}
	return e, err
}

func texts(n int) []string { return make([]string, n) }
