// Package receipt keeps what was decided: one receipt for each accepted delivery, one outcome for each attempt.
//
// It owns the tables receipt and outcome. The receipt's key is the replay key, so a delivery that comes again finds it and
// gets back what was decided the first time; the outcome of every attempt, also of a repeat and of a refusal, stands
// under the place of its event in the log. Both are written in the transaction that stores what they speak of.
package receipt

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
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
)

//go:embed claim.sql
var claimSQL string

//go:embed versions.sql
var versionsSQL string

//go:embed find.sql
var findSQL string

//go:embed record.sql
var recordSQL string

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Key is a delivery of a tenant.
type Key struct {
	Tenant   string
	Delivery offer.DeliveryID
}

// A Place is where an event stands in the log.
type Place struct {
	Lane   int
	Offset int64
	Item   int // in a record that holds a batch of events, else 0
}

// Compare orders places: of two copies in one batch the lower one is the first.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Lane, q.Lane), cmp.Compare(p.Offset, q.Offset), cmp.Compare(p.Item, q.Item))
}

// A Receipt says that a replay key is taken, by which payload, and where its outcome stands.
type Receipt struct {
	Key
	Fingerprint offer.Fingerprint
	Place
}

// Claim takes the keys of receipts that are free. It returns those that stand there now, of every key given: a receipt
// whose Place differs from the one given was there before. One that was there and is gone by now, since it has expired, is a
// postgres.ErrLostRace: the transaction begins again.
func Claim(ctx context.Context, tx pgx.Tx, receipts []Receipt) (map[Key]Receipt, error) {
	n := len(receipts)
	standing := make(map[Key]Receipt, n)
	if n == 0 {
		return standing, nil
	}
	// Sorted, so that two workers take the locks of common keys in one order.
	receipts = slices.Clone(receipts)
	slices.SortFunc(receipts, func(a, b Receipt) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.Delivery[:], b.Delivery[:]))
	})
	var (
		tenants, canonical = make([]string, n), make([]string, n)
		deliveries         = make([][16]byte, n)
		digests            = make([][]byte, n)
		lanes, items       = make([]int, n), make([]int, n)
		offsets            = make([]int64, n)
	)
	for i, r := range receipts {
		tenants[i], deliveries[i], canonical[i], digests[i] = r.Tenant, [16]byte(r.Delivery), r.Fingerprint.Canonicalization, r.Fingerprint.Digest[:]
		lanes[i], offsets[i], items[i] = r.Lane, r.Offset, r.Item
		standing[r.Key] = r
	}
	rows, err := tx.Query(ctx, claimSQL, tenants, deliveries, canonical, digests, lanes, offsets, items)
	if err != nil {
		return nil, fmt.Errorf("claim %d receipts: %w", n, err)
	}
	won := make(map[Key]bool, n)
	var (
		tenant   string
		delivery uuid.UUID
	)
	if _, err = pgx.ForEachRow(rows, []any{&tenant, &delivery}, func() error {
		won[Key{tenant, offer.DeliveryID(delivery)}] = true
		return nil
	}); err != nil {
		return nil, fmt.Errorf("claim %d receipts: %w", n, err)
	}
	var lost []Key
	for _, r := range receipts {
		if !won[r.Key] {
			lost = append(lost, r.Key)
		}
	}
	// In a statement of its own: the one that lost cannot see the rows it lost to.
	found, err := Find(ctx, tx, lost)
	if err != nil {
		return nil, err
	}
	if len(found) < len(lost) {
		return nil, fmt.Errorf("claim %d receipts, %d of them expired meanwhile: %w", n, len(lost)-len(found), postgres.ErrLostRace)
	}
	for k, r := range found {
		standing[k] = r
	}
	return standing, nil
}

// Find returns the receipts that exist of keys.
func Find(ctx context.Context, q Querier, keys []Key) (map[Key]Receipt, error) {
	found := make(map[Key]Receipt, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	tenants, deliveries := make([]string, len(keys)), make([][16]byte, len(keys))
	for i, k := range keys {
		tenants[i], deliveries[i] = k.Tenant, [16]byte(k.Delivery)
	}
	rows, err := q.Query(ctx, findSQL, tenants, deliveries)
	if err != nil {
		return nil, fmt.Errorf("find %d receipts: %w", len(keys), err)
	}
	var (
		r        Receipt
		delivery uuid.UUID
		digest   []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&r.Tenant, &delivery, &r.Fingerprint.Canonicalization, &digest, &r.Lane, &r.Offset, &r.Item}, func() error {
		r.Delivery = offer.DeliveryID(delivery)
		copy(r.Fingerprint.Digest[:], digest)
		found[r.Key] = r
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find %d receipts: %w", len(keys), err)
	}
	return found, nil
}

// Versions returns the mapping versions that deliveries were accepted under, of those that have receipts.
func Versions(ctx context.Context, q Querier, keys []Key) (map[Key]int, error) {
	tenants, deliveries := make([]string, len(keys)), make([][16]byte, len(keys))
	for i, k := range keys {
		tenants[i], deliveries[i] = k.Tenant, [16]byte(k.Delivery)
	}
	rows, err := q.Query(ctx, versionsSQL, tenants, deliveries)
	if err != nil {
		return nil, fmt.Errorf("find the mapping versions of %d deliveries: %w", len(keys), err)
	}
	var (
		versions = make(map[Key]int, len(keys))
		tenant   string
		delivery uuid.UUID
		version  int
	)
	if _, err := pgx.ForEachRow(rows, []any{&tenant, &delivery, &version}, func() error {
		versions[Key{tenant, offer.DeliveryID(delivery)}] = version
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find the mapping versions of %d deliveries: %w", len(keys), err)
	}
	return versions, nil
}

// A Warning is something about a row that did not keep it from being taken.
type Warning struct {
	Row     int    `json:"row"`
	Warning string `json:"warning"`          // such as gtin_invalid
	Detail  string `json:"detail,omitempty"` // of version_gap: the versions that are missing, as 8 or 8-10
}

// maxWarnings bounds the warnings that are kept of an attempt. A feed whose every row has one would otherwise double its
// deliveries in the database.
const maxWarnings = 1000

// An Attempt is one event of the log and what became of it. Of its warnings the first 1,000 are kept.
type Attempt struct {
	Place
	Tenant         string
	Delivery       *offer.DeliveryID // nil: the record has no replay key
	Feed           string
	EventSource    string
	EventID        string
	EventType      string
	Declared       string // as in its replay key
	Outcome        offer.Outcome
	Fault          *offer.Fault // of a quarantined one
	Fingerprint    offer.Fingerprint
	Archived       bool   // its payload is in the archive, as entry (Offset, Item)
	Accepted       *Place // of a duplicate and of a mismatch: the first
	MappingVersion int
	Rows           int
	Results        offer.Results
	Rejections     []offer.Fault
	Warnings       []Warning // by row
	BeyondHorizon  bool      // it was accepted before, and its receipt has expired since
	Run            string
	Page           int
	ResultSeq      int64 // of the event that tells it; 0: none does
	FirstSeq       int64 // of its observations and sightings; 0: it has none
	LastSeq        int64
	RetrievedAt    time.Time
	RecordedAt     time.Time
}

// Warn keeps a warning, if it is among the first.
func (a *Attempt) Warn(w Warning) {
	if len(a.Warnings) < maxWarnings {
		a.Warnings = append(a.Warnings, w)
	}
}

// Record stores attempts.
func Record(ctx context.Context, tx pgx.Tx, attempts []*Attempt) error {
	n := len(attempts)
	if n == 0 {
		return nil
	}
	var (
		lanes, items, acceptedLane, acceptedItem, mappings, counts = ints(n), ints(n), ints(n), ints(n), ints(n), ints(n)
		saved, duplicate, old, ambiguous, rejected, pages          = ints(n), ints(n), ints(n), ints(n), ints(n), ints(n)
		offsets, acceptedOffset, firstSeq, lastSeq, retrieved      = longs(n), longs(n), longs(n), longs(n), longs(n)
		resultSeq                                                  = longs(n)
		tenants, feeds, sources, ids, types, outcomes              = texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
		reasons, details, messages, canonical, runs                = texts(n), texts(n), texts(n), texts(n), texts(n)
		rejections, warnings, declared                             = texts(n), texts(n), texts(n)
		deliveries                                                 = make([]pgtype.UUID, n)
		digests                                                    = make([][]byte, n)
		archived, beyond                                           = make([]bool, n), make([]bool, n)
		recorded                                                   = make([]time.Time, n)
	)
	for i, a := range attempts {
		lanes[i], offsets[i], items[i], tenants[i] = a.Lane, a.Offset, a.Item, a.Tenant
		if a.Delivery != nil {
			deliveries[i] = pgtype.UUID{Bytes: *a.Delivery, Valid: true}
		}
		feeds[i], sources[i], ids[i], types[i], outcomes[i] = a.Feed, a.EventSource, a.EventID, a.EventType, string(a.Outcome)
		if a.Fault != nil {
			reasons[i], details[i], messages[i] = a.Fault.Reason, a.Fault.Detail, a.Fault.Error()
		}
		if canonical[i] = a.Fingerprint.Canonicalization; canonical[i] != "" {
			digests[i] = a.Fingerprint.Digest[:]
		}
		archived[i] = a.Archived
		acceptedLane[i] = -1
		if a.Accepted != nil {
			acceptedLane[i], acceptedOffset[i], acceptedItem[i] = a.Accepted.Lane, a.Accepted.Offset, a.Accepted.Item
		}
		mappings[i], counts[i] = a.MappingVersion, a.Rows
		saved[i], duplicate[i], old[i] = a.Results.Saved, a.Results.Duplicate, a.Results.Old
		ambiguous[i], rejected[i] = a.Results.AmbiguousOrder, a.Results.Rejected
		var err error
		if rejections[i], err = jsonText(len(a.Rejections), a.Rejections); err == nil {
			warnings[i], err = jsonText(len(a.Warnings), a.Warnings)
		}
		if err != nil {
			return fmt.Errorf("record %d attempts: %w", n, err)
		}
		runs[i], pages[i], firstSeq[i], lastSeq[i] = a.Run, a.Page, a.FirstSeq, a.LastSeq
		retrieved[i], recorded[i], declared[i] = a.RetrievedAt.UnixNano(), a.RecordedAt, a.Declared
		beyond[i], resultSeq[i] = a.BeyondHorizon, a.ResultSeq
	}
	_, err := tx.Exec(ctx, recordSQL, lanes, offsets, items, tenants, deliveries, feeds, sources, ids, types, outcomes, reasons, details,
		messages, canonical, digests, archived, acceptedLane, acceptedOffset, acceptedItem, mappings, counts, saved, duplicate, old,
		ambiguous, rejected, rejections, warnings, runs, pages, firstSeq, lastSeq, retrieved, recorded, declared, beyond, resultSeq)
	if err != nil {
		return fmt.Errorf("record %d attempts: %w", n, err)
	}
	return nil
}

func jsonText(n int, v any) (string, error) {
	if n == 0 {
		return "", nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}

func ints(n int) []int     { return make([]int, n) }
func longs(n int) []int64  { return make([]int64, n) }
func texts(n int) []string { return make([]string, n) }
