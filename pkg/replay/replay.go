// Package replay has archived deliveries read again: which ones are meant, and how far a replay of them has come.
//
// It owns the tables replay_run and replay_page. A replay looks at the outcomes of input lanes, some at a time in the order of their
// places, and sends a reference to each delivery that is meant to the topic replays, in pages, each of which is one transaction of
// ingest. How far it may look is fixed when it begins, so its deliveries are the same however often it is interrupted. It moves
// nothing but its own row: where live work stands is never touched.
package replay

import (
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
)

var (
	//go:embed stretches.sql
	stretchesSQL string
	//go:embed accounts.sql
	accountsSQL string
	//go:embed next.sql
	nextSQL string
	//go:embed expect.sql
	expectSQL string
	//go:embed begin.sql
	beginSQL string
	//go:embed lock.sql
	lockSQL string
	//go:embed list.sql
	listSQL string
	//go:embed due.sql
	dueSQL string
	//go:embed turn.sql
	turnSQL string
	//go:embed page.sql
	pageSQL string
	//go:embed set.sql
	setSQL string
	//go:embed hold.sql
	holdSQL string
	//go:embed answer.sql
	answerSQL string
	//go:embed again.sql
	againSQL string
	//go:embed missed.sql
	missedSQL string
	//go:embed outcomes.sql
	outcomesSQL string
)

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Selection says which accepted deliveries of a tenant are meant: those to which all of it applies. What is empty applies to
// all.
type Selection struct {
	Feed       string     `json:"feed,omitempty"`
	Mapping    int        `json:"mapping_version,omitempty"` // of the feed: those that were not read under it, to be read so; 0: as repeats
	Run        string     `json:"run,omitempty"`             // as its events name it
	Record     string     `json:"record,omitempty"`          // that they have claimed
	Artifact   string     `json:"artifact,omitempty"`        // the object that holds their payloads
	From       *time.Time `json:"from,omitempty"`            // recorded then or later,
	To         *time.Time `json:"to,omitempty"`              // and before then
	Topic      string     `json:"topic,omitempty"`           // that they came from
	Partition  *int32     `json:"partition,omitempty"`
	FromOffset *int64     `json:"from_offset,omitempty"`
	ToOffset   *int64     `json:"to_offset,omitempty"` // exclusive
}

// States of a replay.
const (
	Running   = "running"
	Paused    = "paused"
	Cancelled = "cancelled"
	Sent      = "sent" // all references are on their way, or answered
)

// A Stretch is the offsets [From, To) of a lane.
type Stretch struct {
	Lane     int
	From, To int64
}

// A Run is one replay.
type Run struct {
	Tenant     string
	ID         uuid.UUID // the delivery of the command that asked for it
	Selection  Selection
	Stretches  []Stretch
	Rate       int // deliveries a second
	State      string
	Pages      int           // that were sent
	At         receipt.Place // the last outcome that was looked at
	Sent       int64         // deliveries
	Answered   int64         // of them, that have an outcome
	Anew       bool          // it began again, and sends what has no answer
	Actor      string
	Reason     string
	RecordedAt time.Time
}

// Done reports whether every delivery of the replay has its outcome.
func (r *Run) Done() bool { return r.State == Sent && r.Answered == r.Sent }

// A Ref is a delivery that is to be read again.
type Ref struct {
	receipt.Place // of its outcome
	Delivery      offer.DeliveryID
	Release       int // of a correction, its number
	Row           int // and its one row; 0: all
}

// Begin fixes how far the replay may look and stores it; its Stretches are set.
func Begin(ctx context.Context, tx pgx.Tx, r *Run) (err error) {
	if r.Stretches, err = Stretches(ctx, tx, r.Tenant, &r.Selection); err != nil {
		return err
	}
	selection, err := json.Marshal(r.Selection)
	if err != nil {
		return fmt.Errorf("begin replay %s: %w", r.ID, err)
	}
	lanes, froms, tos := columns(r.Stretches)
	if _, err := tx.Exec(ctx, beginSQL, r.Tenant, r.ID, selection, lanes, froms, tos, r.Rate, r.RecordedAt, r.Actor, r.Reason); err != nil {
		return fmt.Errorf("begin replay %s: %w", r.ID, err)
	}
	return nil
}

// A Missed is the offsets [From, To) of a partition, which were never stored.
type Missed struct {
	Partition int32
	From, To  int64
}

// NeverStored returns what a selection of a topic covers there that ingest has passed over. None where it asks for more than a place:
// of what was never stored nobody knows its run, its records, or when it was recorded.
func NeverStored(ctx context.Context, q Querier, s *Selection) ([]Missed, error) {
	if s.Topic == "" || s.Run != "" || s.Record != "" || s.Artifact != "" || s.From != nil || s.To != nil {
		return nil, nil
	}
	partition := int32(-1)
	if s.Partition != nil {
		partition = *s.Partition
	}
	rows, err := q.Query(ctx, missedSQL, s.Topic, partition, s.FromOffset, s.ToOffset)
	if err != nil {
		return nil, fmt.Errorf("find what was never stored of topic %s: %w", s.Topic, err)
	}
	missed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Missed])
	if err != nil {
		return nil, fmt.Errorf("find what was never stored of topic %s: %w", s.Topic, err)
	}
	return missed, nil
}

// Stretches returns what of the input lanes a selection covers by now.
func Stretches(ctx context.Context, q Querier, tenant string, s *Selection) ([]Stretch, error) {
	partition := int32(-1)
	if s.Partition != nil {
		partition = *s.Partition
	}
	rows, err := q.Query(ctx, stretchesSQL, tenant, s.Topic, partition, s.FromOffset, s.ToOffset, s.Artifact)
	if err != nil {
		return nil, fmt.Errorf("find what a replay looks at: %w", err)
	}
	stretches, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Stretch])
	if err != nil {
		return nil, fmt.Errorf("find what a replay looks at: %w", err)
	}
	return stretches, nil
}

func columns(stretches []Stretch) (lanes []int, froms, tos []int64) {
	lanes, froms, tos = []int{}, []int64{}, []int64{}
	for _, s := range stretches {
		lanes, froms, tos = append(lanes, s.Lane), append(froms, s.From), append(tos, s.To)
	}
	return lanes, froms, tos
}

// looks is how many outcomes are looked at in one step.
const looks = 5000

// Next returns at most limit references behind At, and moves At over what it has looked at; last says that there is nothing
// behind. There may be more where it returns fewer, since a step looks at no more than so many outcomes.
func (r *Run) Next(ctx context.Context, q Querier, limit int) (refs []Ref, last bool, err error) {
	var offers []uuid.UUID
	if r.Selection.Record != "" {
		if offers, err = r.offers(ctx, q); err != nil {
			return nil, false, err
		}
	}
	var answeredIn *uuid.UUID
	if r.Anew {
		answeredIn = &r.ID
	}
	lanes, froms, tos := columns(r.Stretches)
	rows, err := q.Query(ctx, nextSQL, r.Tenant, lanes, froms, tos, r.At.Lane, r.At.Offset, r.At.Item, r.Selection.Feed, r.Selection.Run,
		r.Selection.From, r.Selection.To, offers, looks, r.Selection.Mapping, answeredIn)
	if err != nil {
		return nil, false, fmt.Errorf("look for deliveries of replay %s: %w", r.ID, err)
	}
	var (
		ref      Ref
		delivery uuid.NullUUID
		meant    bool
		looked   int
	)
	full := errors.New("the page is full")
	_, err = pgx.ForEachRow(rows, []any{&ref.Lane, &ref.Offset, &ref.Item, &delivery, &ref.Release, &ref.Row, &meant}, func() error {
		if len(refs) == limit {
			return full
		}
		looked++
		r.At = ref.Place
		if meant {
			ref.Delivery = offer.DeliveryID(delivery.UUID)
			refs = append(refs, ref)
		}
		return nil
	})
	if errors.Is(err, full) {
		return refs, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look for deliveries of replay %s: %w", r.ID, err)
	}
	return refs, looked < looks, nil
}

// offers are those that the record can be of: one for each account of the feeds that are meant.
func (r *Run) offers(ctx context.Context, q Querier) ([]uuid.UUID, error) {
	rows, err := q.Query(ctx, accountsSQL, r.Tenant, r.Selection.Feed)
	if err != nil {
		return nil, fmt.Errorf("find the offers of record %q: %w", r.Selection.Record, err)
	}
	accounts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find the offers of record %q: %w", r.Selection.Record, err)
	}
	offers := []uuid.UUID{}
	for _, a := range accounts {
		offers = append(offers, uuid.UUID(offer.Key{Tenant: r.Tenant, Account: a, Record: r.Selection.Record}.ID()))
	}
	return offers, nil
}

// A Plan says how many deliveries come to what.
type Plan struct {
	Deliveries  int64 `json:"deliveries"`
	Accepted    int64 `json:"accepted"`    // their receipts have expired: they are taken anew
	Duplicate   int64 `json:"duplicate"`   // they stand as they are
	Reread      int64 `json:"reread"`      // they are read under another mapping version
	Quarantined int64 `json:"quarantined"` // their evidence has expired, or its key was destroyed
}

// Expect plans what is behind At: the deliveries that a run from there sends, and what comes of them as things stand. Evidence
// that is damaged shows when it is read.
func (r *Run) Expect(ctx context.Context, q Querier) (p Plan, err error) {
	ahead, anew := *r, map[offer.DeliveryID]bool{}
	for last := false; !last; {
		var refs []Ref
		if refs, last, err = ahead.Next(ctx, q, looks); err != nil {
			return p, err
		}
		lanes, offsets, items := make([]int, len(refs)), make([]int64, len(refs)), make([]int, len(refs))
		for i, ref := range refs {
			lanes[i], offsets[i], items[i] = ref.Lane, ref.Offset, ref.Item
		}
		rows, err := q.Query(ctx, expectSQL, r.Tenant, lanes, offsets, items, r.Selection.Mapping > 0)
		if err != nil {
			return p, fmt.Errorf("plan replay %s: %w", r.ID, err)
		}
		var (
			id      uuid.UUID
			outcome offer.Outcome
		)
		_, err = pgx.ForEachRow(rows, []any{&id, &outcome}, func() error {
			p.Deliveries++
			switch {
			case outcome == offer.Quarantined:
				p.Quarantined++
			case outcome == offer.Reread:
				p.Reread++
			case outcome == offer.Accepted && !anew[offer.DeliveryID(id)]:
				anew[offer.DeliveryID(id)] = true
				p.Accepted++
			default:
				p.Duplicate++
			}
			return nil
		})
		if err != nil {
			return p, fmt.Errorf("plan replay %s: %w", r.ID, err)
		}
	}
	return p, nil
}

// Lock returns a replay of a tenant, locked until tx ends; ok is false where there is none.
func Lock(ctx context.Context, tx pgx.Tx, tenant string, id uuid.UUID) (r Run, ok bool, err error) {
	rows, err := tx.Query(ctx, lockSQL, tenant, id)
	if err != nil {
		return r, false, fmt.Errorf("lock replay %s: %w", id, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return r, false, fmt.Errorf("lock replay %s: %w", id, err)
	}
	if len(found) == 0 {
		return r, false, nil
	}
	return found[0], true, nil
}

// Set puts a replay that the caller has locked into another state.
func Set(ctx context.Context, tx pgx.Tx, r *Run, state string) error {
	if _, err := tx.Exec(ctx, setSQL, r.Tenant, r.ID, state); err != nil {
		return fmt.Errorf("set replay %s to %s: %w", r.ID, state, err)
	}
	return nil
}

// Turn moves a replay, which the caller has locked, over a page of so many deliveries that is sent at a time: to where Next has left
// it. last says that nothing is behind.
func Turn(ctx context.Context, tx pgx.Tx, r *Run, sent int, last bool, at time.Time) error {
	r.Pages++
	if _, err := tx.Exec(ctx, turnSQL, r.Tenant, r.ID, r.Pages, sent, r.At.Lane, r.At.Offset, r.At.Item, last, at); err != nil {
		return fmt.Errorf("turn page %d of replay %s: %w", r.Pages, r.ID, err)
	}
	return nil
}

// A Page is what one transaction has sent of a replay.
type Page struct {
	Tenant     string
	Replay     uuid.UUID
	Number     int // from 1
	Command    offer.DeliveryID
	Lane       int
	FirstSeq   int64 // of its references; 0: it has none
	LastSeq    int64
	RecordedAt time.Time
}

// Record stores a page, after its turn.
func Record(ctx context.Context, tx pgx.Tx, p *Page) error {
	var first, last *int64
	if p.FirstSeq > 0 {
		first, last = &p.FirstSeq, &p.LastSeq
	}
	if _, err := tx.Exec(ctx, pageSQL, p.Tenant, p.Replay, p.Number, uuid.UUID(p.Command), p.Lane, first, last, p.RecordedAt); err != nil {
		return fmt.Errorf("store page %d of replay %s: %w", p.Number, p.Replay, err)
	}
	return nil
}

// A Due is a page that is to be sent next.
type Due struct {
	Tenant  string
	ID      uuid.UUID // of the replay
	Page    int
	Resumed int // how often the replay went on after a pause
}

// ahead is for how many seconds references may be on their way.
const ahead = 2

// Pages returns the pages that are due.
func Pages(ctx context.Context, tx pgx.Tx) ([]Due, error) {
	rows, err := tx.Query(ctx, dueSQL, ahead)
	if err != nil {
		return nil, fmt.Errorf("look for pages of replays: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Due])
	if err != nil {
		return nil, fmt.Errorf("look for pages of replays: %w", err)
	}
	return due, nil
}

// Any reports whether there ever was a replay.
func Any(ctx context.Context, tx pgx.Tx) (is bool, err error) {
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM replay_run)").Scan(&is); err != nil {
		return false, fmt.Errorf("look for replays: %w", err)
	}
	return is, nil
}

// Again has the replays begin again that wait for answers, since an operator has let references go unread: what has no outcome by now
// is sent once more. References that are still on their way are read as well, which changes nothing.
func Again(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, againSQL); err != nil {
		return fmt.Errorf("have replays begin again: %w", err)
	}
	return nil
}

// An Answered is a delivery of a replay that has got its outcome.
type Answered struct {
	Tenant string
	ID     uuid.UUID // of the replay
	receipt.Place
}

// Answer counts deliveries of replays that have got their outcomes. It comes before the transaction stores what they were of: a
// reference that is read twice counts once.
func Answer(ctx context.Context, tx pgx.Tx, list []Answered) error {
	if len(list) == 0 {
		return nil
	}
	var (
		tenants      []string
		ids          []uuid.UUID
		lanes, items []int
		offsets      []int64
	)
	for _, a := range list {
		tenants, ids = append(tenants, a.Tenant), append(ids, a.ID)
		lanes, offsets, items = append(lanes, a.Lane), append(offsets, a.Offset), append(items, a.Item)
	}
	_, err := tx.Exec(ctx, holdSQL, tenants, ids)
	if err == nil {
		_, err = tx.Exec(ctx, answerSQL, tenants, ids, lanes, offsets, items)
	}
	if err != nil {
		return fmt.Errorf("count %d answers of replays: %w", len(list), err)
	}
	return nil
}

// List returns the replays of the transaction's tenant, the newest first; of an id that one.
func List(ctx context.Context, q Querier, id *uuid.UUID) ([]Run, error) {
	rows, err := q.Query(ctx, listSQL, id)
	if err != nil {
		return nil, fmt.Errorf("list replays: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("list replays: %w", err)
	}
	return list, nil
}

// A Tally is how often deliveries of a replay came to what.
type Tally struct {
	Outcome offer.Outcome `json:"outcome"`
	Reason  string        `json:"reason,omitempty"`
	Detail  string        `json:"detail,omitempty"`
	Count   int64         `json:"count"`
}

// Outcomes returns what became of the deliveries of a replay of the transaction's tenant so far.
func Outcomes(ctx context.Context, q Querier, id uuid.UUID) ([]Tally, error) {
	rows, err := q.Query(ctx, outcomesSQL, id)
	if err != nil {
		return nil, fmt.Errorf("count the outcomes of replay %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Tally])
	if err != nil {
		return nil, fmt.Errorf("count the outcomes of replay %s: %w", id, err)
	}
	return list, nil
}

func scan(row pgx.CollectableRow) (r Run, err error) {
	var (
		lanes      []int
		froms, tos []int64
	)
	if err := row.Scan(&r.Tenant, &r.ID, &r.Selection, &lanes, &froms, &tos, &r.Rate, &r.State, &r.Pages, &r.At.Lane, &r.At.Offset, &r.At.Item,
		&r.Sent, &r.Answered, &r.Anew, &r.Actor, &r.Reason, &r.RecordedAt); err != nil {
		return r, err
	}
	for i := range lanes {
		r.Stretches = append(r.Stretches, Stretch{lanes[i], froms[i], tos[i]})
	}
	return r, nil
}
