package receipt

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed of.sql
	ofSQL string
	//go:embed at.sql
	atSQL string
	//go:embed stating.sql
	statingSQL string
	//go:embed latest.sql
	latestSQL string
	//go:embed list.sql
	listSQL string
)

// A Position is a record of an input topic. Topics are named by their id: one that was made again under the same name is
// another.
type Position struct {
	TopicID   uuid.UUID
	Partition int32
	Offset    int64
}

// A Standpoint says where an attempt stands, as people name it.
type Standpoint struct {
	Topic     string `json:"topic"` // by its own name
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Item      int    `json:"item"` // in a record that holds a batch of events, else 0; -1: an empty batch
}

// Where is topic/partition/offset, and /item where the record holds several events.
func (s Standpoint) Where() string {
	if s.Item != 0 {
		return fmt.Sprintf("%s/%d/%d/%d", s.Topic, s.Partition, s.Offset, s.Item)
	}
	return fmt.Sprintf("%s/%d/%d", s.Topic, s.Partition, s.Offset)
}

// Evidence is where the payload of an attempt is in the archive: entry (Offset, Item) of an object.
type Evidence struct {
	Object string `json:"object"`
	KeyID  string `json:"key_id"`
	State  string `json:"state"` // stored | expired | shredded
	Offset int64  `json:"offset"`
	Item   int    `json:"item"`
	SHA256 string `json:"sha256"` // of the payload
	Length int64  `json:"length"` // of the payload, in bytes
}

// A Result is the JSON form of an attempt as far as it never changes: what became of one event. Counts and lists are always
// there, also where they are zero and empty.
type Result struct {
	Tenant    string `json:"tenant"`
	Feed      string `json:"feed,omitempty"`
	ReplayKey string `json:"replay_key,omitempty"`        // absent: the record has none, as it lacks what names it
	Delivery  string `json:"delivery,omitempty"`          // derived from the replay key
	Identity  string `json:"identity_strength,omitempty"` // of the replay key: strong | weak
	Standpoint
	EventSource      string        `json:"event_source,omitempty"`
	EventID          string        `json:"event_id,omitempty"`
	EventType        string        `json:"event_type,omitempty"`
	Outcome          offer.Outcome `json:"outcome"`
	Reason           string        `json:"reason,omitempty"`
	Detail           string        `json:"detail,omitempty"`
	Message          string        `json:"message,omitempty"`
	Rows             int           `json:"rows"`
	Rejected         []offer.Fault `json:"rows_rejected"`
	Results          offer.Results `json:"results"`
	Warnings         []Warning     `json:"warnings"` // the first 1,000
	Flags            []string      `json:"flags"`
	Fingerprint      string        `json:"fingerprint,omitempty"` // hex
	Canonicalization string        `json:"canonicalization,omitempty"`
	Run              string        `json:"run,omitempty"`
	Page             int           `json:"page,omitempty"`
	MappingVersion   int           `json:"mapping_version,omitempty"`
	RetrievedAt      string        `json:"retrieved_at"`
	RecordedAt       string        `json:"recorded_at"`
}

// A Document is a Result with what belongs to it by now, and for a repeat what the first one got.
type Document struct {
	Result
	Held bool `json:"held"` // its claims do not count: its run is not whole, or waits for a decision, or was rejected
	// Attempts are the events with its replay key so far, this one included; of acceptances the one that a receipt tells.
	Attempts int       `json:"attempts"`
	Artifact *Evidence `json:"artifact,omitempty"` // of a duplicate: that of the first
	// Observations are those that the delivery claimed, in the order of its rows: of a duplicate those of the first, of a
	// refusal none.
	Observations []string    `json:"observations"`
	First        *Standpoint `json:"first,omitempty"` // of a duplicate or a mismatch: the one that was accepted
}

// Of returns the attempts of a delivery of the transaction's tenant, the oldest first: refusals, the accepted one, repeats.
func Of(ctx context.Context, q Querier, id offer.DeliveryID) ([]Document, error) {
	list, err := list(ctx, q, ofSQL, uuid.UUID(id))
	if err != nil {
		return nil, fmt.Errorf("read the attempts of delivery %s: %w", id, err)
	}
	return list, nil
}

// Stating returns the acceptance whose payload a delivery of the transaction's tenant has stated number seq of a lane with; nil: its
// receipt has expired. Another acceptance of the same key, later, is another payload.
func Stating(ctx context.Context, q Querier, id offer.DeliveryID, lane int, seq int64) (*Document, error) {
	list, err := list(ctx, q, statingSQL, uuid.UUID(id), lane, seq)
	if err != nil {
		return nil, fmt.Errorf("find what states number %d of lane %d: %w", seq, lane, err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return &list[0], nil
}

// At returns the attempts at positions that are decided, of the transaction's tenant, in the order in which they were.
func At(ctx context.Context, q Querier, positions []Position) ([]Document, error) {
	n := len(positions)
	topics, partitions, offsets := make([][16]byte, n), make([]int32, n), make([]int64, n)
	for i, p := range positions {
		topics[i], partitions[i], offsets[i] = p.TopicID, p.Partition, p.Offset
	}
	list, err := list(ctx, q, atSQL, topics, partitions, offsets)
	if err != nil {
		return nil, fmt.Errorf("read the outcomes at %d positions: %w", n, err)
	}
	return list, nil
}

// In returns the attempt at a place, of the transaction's tenant; pgx.ErrNoRows where there is none.
func In(ctx context.Context, q Querier, p Place) (Document, error) {
	list, err := documents(ctx, q, []int{p.Lane}, []int64{p.Offset}, []int{p.Item})
	if err == nil && len(list) == 0 {
		err = pgx.ErrNoRows
	}
	if err != nil {
		return Document{}, fmt.Errorf("read the outcome at lane %d, offset %d, item %d: %w", p.Lane, p.Offset, p.Item, err)
	}
	return list[0], nil
}

// A Filter narrows List; what is empty matches all.
type Filter struct {
	Feed    string
	Outcome offer.Outcome
	Limit   int
}

// Reach is how many offsets List goes back in each partition. It bounds the work for what is rare or long gone: rows are
// written once and have no index by tenant, feed or outcome that every delivery would have to pay for.
const Reach = 100_000

// List returns the newest attempts of the transaction's tenant, the newest first: of those at the last Reach offsets of
// each partition.
func List(ctx context.Context, q Querier, f Filter) ([]Document, error) {
	list, err := list(ctx, q, latestSQL, f.Feed, string(f.Outcome), f.Limit, Reach)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	slices.Reverse(list)
	return list, nil
}

// list reads the attempts at the places that pick finds.
func list(ctx context.Context, q Querier, pick string, args ...any) ([]Document, error) {
	rows, err := q.Query(ctx, pick, args...)
	if err != nil {
		return nil, err
	}
	var (
		lanes, items []int
		offsets      []int64
		p            Place
	)
	if _, err := pgx.ForEachRow(rows, []any{&p.Lane, &p.Offset, &p.Item}, func() error {
		lanes, offsets, items = append(lanes, p.Lane), append(offsets, p.Offset), append(items, p.Item)
		return nil
	}); err != nil || len(lanes) == 0 {
		return nil, err
	}
	return documents(ctx, q, lanes, offsets, items)
}

func documents(ctx context.Context, q Querier, lanes []int, offsets []int64, items []int) ([]Document, error) {
	rows, err := q.Query(ctx, listSQL, lanes, offsets, items)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanDocument)
}

func scanDocument(row pgx.CollectableRow) (Document, error) {
	d := Document{Result: Result{Flags: []string{}}}
	var (
		key              offer.ReplayKey
		delivery         *uuid.UUID
		fingerprint, sum []byte
		retrieved        int64
		beyond           bool
		recorded         time.Time
		first            struct {
			topic     *string
			partition *int32
			offset    *int64
			item      *int
		}
		artifact struct {
			object, keyID, state *string
			offset, length       *int64
			item                 *int
		}
		observations []uuid.UUID
		standing     int
	)
	err := row.Scan(&d.Tenant, &d.Feed, &delivery, &key.Connector, &key.Account, &d.EventSource, &d.EventID, &d.EventType, &key.Declared,
		&d.Topic, &d.Partition, &d.Offset, &d.Item, &d.Outcome, &d.Reason, &d.Detail, &d.Message,
		&d.Canonicalization, &fingerprint, &d.MappingVersion, &d.Rows, &d.Results.Saved, &d.Results.Duplicate, &d.Results.Old,
		&d.Results.AmbiguousOrder, &d.Results.Rejected, &d.Rejected, &d.Warnings, &beyond, &d.Run, &d.Page, &retrieved, &recorded,
		&first.topic, &first.partition, &first.offset, &first.item,
		&artifact.object, &artifact.keyID, &artifact.state, &artifact.offset, &artifact.item, &sum, &artifact.length,
		&observations, &d.Attempts, &standing)
	if err != nil {
		return d, err
	}
	if delivery != nil {
		key.Tenant, key.EventSource, key.EventID = d.Tenant, d.EventSource, d.EventID
		d.Delivery, d.ReplayKey, d.Identity = delivery.String(), key.String(), offer.Strength(!key.Weak())
	}
	switch standing {
	case 0:
		d.Held = true
	case 1:
		d.Flags = append(d.Flags, offer.FlagPartialRun)
	}
	if fingerprint != nil {
		d.Fingerprint = fmt.Sprintf("%x", fingerprint)
	}
	if first.topic != nil {
		d.First = &Standpoint{*first.topic, *first.partition, *first.offset, *first.item}
	}
	if artifact.object != nil {
		d.Artifact = &Evidence{*artifact.object, *artifact.keyID, *artifact.state, *artifact.offset, *artifact.item,
			fmt.Sprintf("%x", sum), *artifact.length}
	}
	if beyond {
		d.Flags = append(d.Flags, offer.FlagBeyondHorizon)
	}
	if d.Rejected == nil {
		d.Rejected = []offer.Fault{}
	}
	if d.Warnings == nil {
		d.Warnings = []Warning{}
	}
	d.Observations = make([]string, len(observations))
	for i, id := range observations {
		d.Observations[i] = id.String()
	}
	d.RetrievedAt, d.RecordedAt = offer.TimeOf(time.Unix(0, retrieved)).Text, offer.TimeOf(recorded).Text
	return d, nil
}
