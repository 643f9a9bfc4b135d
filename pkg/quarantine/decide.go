package quarantine

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed lock.sql
var lockSQL string

//go:embed expected.sql
var expectedSQL string

//go:embed corrections.sql
var correctionsSQL string

//go:embed whole.sql
var wholeSQL string

//go:embed releases.sql
var releasesSQL string

//go:embed any_replay.sql
var anyReplaySQL string

//go:embed decide.sql
var decideSQL string

//go:embed decisions.sql
var decisionsSQL string

//go:embed settle.sql
var settleSQL string

//go:embed reopen.sql
var reopenSQL string

//go:embed replayed.sql
var replayedSQL string

// A Verdict says what was decided about an entry. The list is closed.
type Verdict string

// Verdicts.
const (
	Released Verdict = "released" // by an operator: its evidence goes through ingest again
	Rejected Verdict = "rejected" // by an operator: it stays set aside for good
	Redriven Verdict = "redriven" // its cause was mended, and its evidence goes through ingest again
)

// A Decision is one row of quarantine_decision.
type Decision struct {
	Tenant     string
	Entry      uuid.UUID
	N          int // from 1, among those of the entry; given when it is stored
	Verdict    Verdict
	Delivery   *offer.DeliveryID // the entry's
	Release    int               // of a correction, its number among those of the delivery; 0: under the event's own id
	Actor      string
	Reason     string
	Command    offer.DeliveryID
	Lane       int // and number of the event that replays the evidence; 0: none does
	Seq        int64
	RecordedAt time.Time
}

// Corrects reports whether a release of the entry is a correction, with an id of its own: its delivery's key is taken, by what
// it contradicts or by its other rows. All else claims again under its own id.
func (e *Entry) Corrects() bool {
	return e.Fault.Row > 0 || e.Fault.Reason == offer.ReasonReplayPayloadMismatch
}

// Lock returns entries of a tenant by id, locked until tx ends; those that there are.
func Lock(ctx context.Context, tx pgx.Tx, tenant string, ids []uuid.UUID) ([]Entry, error) {
	rows, err := tx.Query(ctx, lockSQL, tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("lock %d entries of quarantine: %w", len(ids), err)
	}
	entries, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("lock %d entries of quarantine: %w", len(ids), err)
	}
	return entries, nil
}

// Expected returns the open entries of events that no feed expected, of a source on topics that one names now: the oldest
// first, at most limit, locked until tx ends.
func Expected(ctx context.Context, tx pgx.Tx, source string, topics []string, limit int) ([]Entry, error) {
	rows, err := tx.Query(ctx, expectedSQL, source, topics, limit)
	if err != nil {
		return nil, fmt.Errorf("find what is expected by now: %w", err)
	}
	entries, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("find what is expected by now: %w", err)
	}
	return entries, nil
}

// Releases is the number of the last correction of a delivery; 0: there is none.
func Releases(ctx context.Context, tx pgx.Tx, tenant string, delivery offer.DeliveryID) (n int, err error) {
	if err := tx.QueryRow(ctx, releasesSQL, tenant, uuid.UUID(delivery)).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the corrections of delivery %s: %w", delivery, err)
	}
	return n, nil
}

// A Key names a delivery.
type Key struct {
	Tenant   string
	Delivery offer.DeliveryID
}

// Corrections returns the numbers of the corrections of deliveries that were released, in no order.
func Corrections(ctx context.Context, q Querier, of []Key) (map[Key][]int, error) {
	numbers := map[Key][]int{}
	var n int
	err := ofDeliveries(ctx, q, correctionsSQL, of, []any{&n}, func(k Key) { numbers[k] = append(numbers[k], n) })
	if err != nil {
		return nil, fmt.Errorf("find the corrections of %d deliveries: %w", len(of), err)
	}
	return numbers, nil
}

// Whole returns which of corrections were accepted, and are about their deliveries as wholes.
func Whole(ctx context.Context, q Querier, corrections []Key) (whole []Key, err error) {
	if err := ofDeliveries(ctx, q, wholeSQL, corrections, nil, func(k Key) { whole = append(whole, k) }); err != nil {
		return nil, fmt.Errorf("look at %d corrections: %w", len(corrections), err)
	}
	return whole, nil
}

func ofDeliveries(ctx context.Context, q Querier, statement string, of []Key, more []any, found func(k Key)) error {
	if len(of) == 0 {
		return nil
	}
	tenants, deliveries := make([]string, len(of)), make([]uuid.UUID, len(of))
	for i, k := range of {
		tenants[i], deliveries[i] = k.Tenant, uuid.UUID(k.Delivery)
	}
	rows, err := q.Query(ctx, statement, tenants, deliveries)
	if err != nil {
		return err
	}
	var (
		tenant   string
		delivery uuid.UUID
	)
	_, err = pgx.ForEachRow(rows, append([]any{&tenant, &delivery}, more...), func() error {
		found(Key{tenant, offer.DeliveryID(delivery)})
		return nil
	})
	return err
}

// Decide stores decisions, no two on one entry. The caller holds the entries locked.
func Decide(ctx context.Context, tx pgx.Tx, decisions []*Decision) error {
	n := len(decisions)
	if n == 0 {
		return nil
	}
	var (
		tenants, verdicts, actors, reasons = texts(n), texts(n), texts(n), texts(n)
		entries, commands                  = make([]uuid.UUID, n), make([]uuid.UUID, n)
		deliveries                         = make([]uuid.NullUUID, n)
		releases, lanes                    = make([]int, n), make([]int, n)
		seqs                               = make([]int64, n)
		recorded                           = make([]time.Time, n)
	)
	for i, d := range decisions {
		tenants[i], entries[i], verdicts[i], releases[i], actors[i], reasons[i] = d.Tenant, d.Entry, string(d.Verdict), d.Release, d.Actor, d.Reason
		commands[i], lanes[i], seqs[i], recorded[i] = uuid.UUID(d.Command), d.Lane, d.Seq, d.RecordedAt
		if d.Delivery != nil {
			deliveries[i] = uuid.NullUUID{UUID: uuid.UUID(*d.Delivery), Valid: true}
		}
	}
	if _, err := tx.Exec(ctx, decideSQL, tenants, entries, verdicts, deliveries, releases, actors, reasons, commands, lanes, seqs, recorded); err != nil {
		return fmt.Errorf("store %d decisions on quarantine: %w", n, err)
	}
	return nil
}

// Reopen opens the entries again whose corrections came to nothing, since an operator has let references go unread. Where one is still on
// its way, what becomes of it settles the entry.
func Reopen(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, reopenSQL); err != nil {
		return fmt.Errorf("open entries again whose corrections were let go: %w", err)
	}
	return nil
}

// AnyReplay reports whether any evidence was ever sent through ingest again.
func AnyReplay(ctx context.Context, tx pgx.Tx) (is bool, err error) {
	if err := tx.QueryRow(ctx, anyReplaySQL).Scan(&is); err != nil {
		return false, fmt.Errorf("look for replays: %w", err)
	}
	return is, nil
}

// Decisions returns what was decided about an entry of the transaction's tenant, in order.
func Decisions(ctx context.Context, q Querier, entry uuid.UUID) ([]Decision, error) {
	rows, err := q.Query(ctx, decisionsSQL, entry)
	if err != nil {
		return nil, fmt.Errorf("list the decisions on entry %s: %w", entry, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Decision, err error) {
		var command uuid.UUID
		err = row.Scan(&d.N, &d.Verdict, &d.Release, &d.Actor, &d.Reason, &command, &d.RecordedAt)
		d.Command = offer.DeliveryID(command)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the decisions on entry %s: %w", entry, err)
	}
	return list, nil
}

// A Replay is an event of replays and what it was about.
type Replay struct {
	Tenant       string // of its outcome
	Lane         int    // its place
	Offset       int64
	EntryTenant  string
	Entry        uuid.UUID // that it answers for; uuid.Nil: none
	Run          uuid.UUID // the replay that it is of instead
	Release, Row int
	OriginLane   int // the place of the evidence
	OriginOffset int64
	OriginItem   int
	Delivery     *offer.DeliveryID // that settles the entry; nil: it stays as it is
}

// Replayed stores what events of replays were about, and settles the open entries of which the cause is mended.
func Replayed(ctx context.Context, tx pgx.Tx, replays []Replay) error {
	n := len(replays)
	if n == 0 {
		return nil
	}
	var (
		tenants, entryTenants                           = texts(n), texts(n)
		entries, runs                                   = make([]uuid.NullUUID, n), make([]uuid.NullUUID, n)
		lanes, releases, rows, originLanes, originItems = make([]int, n), make([]int, n), make([]int, n), make([]int, n), make([]int, n)
		offsets, originOffsets                          = make([]int64, n), make([]int64, n)
		settledTenants                                  []string
		settled, by                                     []uuid.UUID
	)
	for i, r := range replays {
		tenants[i], lanes[i], offsets[i], entryTenants[i] = r.Tenant, r.Lane, r.Offset, r.EntryTenant
		entries[i], runs[i] = uuid.NullUUID{UUID: r.Entry, Valid: r.Entry != uuid.Nil}, uuid.NullUUID{UUID: r.Run, Valid: r.Run != uuid.Nil}
		releases[i], rows[i], originLanes[i], originOffsets[i], originItems[i] = r.Release, r.Row, r.OriginLane, r.OriginOffset, r.OriginItem
		if r.Delivery != nil {
			settledTenants, settled, by = append(settledTenants, r.EntryTenant), append(settled, r.Entry), append(by, uuid.UUID(*r.Delivery))
		}
	}
	_, err := tx.Exec(ctx, replayedSQL, tenants, lanes, offsets, entryTenants, entries, releases, rows, originLanes, originOffsets, originItems, runs)
	if err == nil && len(settled) > 0 {
		_, err = tx.Exec(ctx, settleSQL, settledTenants, settled, by)
	}
	if err != nil {
		return fmt.Errorf("store %d replays: %w", n, err)
	}
	return nil
}
