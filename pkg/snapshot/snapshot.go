// Package snapshot keeps what complete exports imply: what an account had and its newest one lacks is deleted.
//
// It owns the tables snapshot_account and snapshot_record. An account that a snapshot feed serves has a row, which is its
// lock, and a row for each record that it ever had. A run of the feed that is whole and of which no row was rejected is a
// snapshot, taken at the least time of its pages; the decision that completes it says so. Of those that count the newest
// implies deletions: each record that it lacks, and of which something without a source version was claimed as of before, is
// deleted as of its time by an observation that no source made (history.Imply). Whatever transaction changes which snapshot
// is the newest, or claims something older than it, adds the deletions that follow, under the account's lock; so at every
// commit they are all there. That a newer one counts puts the deletions of the older out of the fold, and they come back
// where the newer is rejected.
package snapshot

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // for the statements
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed begin.sql
	beginSQL string
	//go:embed lock.sql
	lockSQL string
	//go:embed record.sql
	recordSQL string
	//go:embed newest.sql
	newestSQL string
	//go:embed lacking.sql
	lackingSQL string
	//go:embed is_read.sql
	isReadSQL string
	//go:embed judge.sql
	judgeSQL string
)

// Begin makes an account one that a snapshot feed serves, with the records that history has of it. The caller keeps others
// from claiming meanwhile: it holds the registry alone.
func Begin(ctx context.Context, tx pgx.Tx, at decision.Account) error {
	if _, err := tx.Exec(ctx, beginSQL, at.Tenant, at.Name); err != nil {
		return fmt.Errorf("begin the snapshots of account %s: %w", at.Name, err)
	}
	return nil
}

// Lock holds accounts until tx ends: alone where a snapshot may be completed or decided about, or else shared. It comes after
// the locks of lanes.
func Lock(ctx context.Context, tx pgx.Tx, accounts map[decision.Account]bool) error {
	for _, at := range slices.SortedFunc(maps.Keys(accounts), decision.Account.Compare) {
		how := " FOR SHARE"
		if alone := accounts[at]; alone {
			how = " FOR UPDATE"
		}
		if _, err := tx.Exec(ctx, lockSQL+how, at.Tenant, at.Name); err != nil {
			return fmt.Errorf("lock account %s: %w", at.Name, err)
		}
	}
	return nil
}

// Numbers are what a transaction has claimed: of each lane those above After up to Last.
type Numbers struct {
	Lanes       []int
	After, Last []int64
}

// Record notes the records of accounts that are claimed for the first time.
func Record(ctx context.Context, tx pgx.Tx, n Numbers, accounts []decision.Account) error {
	if len(accounts) == 0 {
		return nil
	}
	tenants, names := make([]string, len(accounts)), make([]string, len(accounts))
	for i, at := range accounts {
		tenants[i], names[i] = at.Tenant, at.Name
	}
	if _, err := tx.Exec(ctx, recordSQL, n.Lanes, n.After, n.Last, tenants, names); err != nil {
		return fmt.Errorf("note the records of %d accounts: %w", len(accounts), err)
	}
	return nil
}

// A Snapshot is a complete one.
type Snapshot struct {
	Run  uuid.UUID
	AsOf int64 // nanoseconds
	Feed string
}

// newer compares snapshots; nil is older than all.
func (s *Snapshot) newer(than *Snapshot) bool {
	return s != nil && (than == nil || cmp.Or(cmp.Compare(s.AsOf, than.AsOf), bytes.Compare(s.Run[:], than.Run[:])) > 0)
}

// Newest returns the newest snapshot of an account that counts: as it stands, and as the decisions make it that this
// transaction is about to record. Nil: there is none.
func Newest(ctx context.Context, tx pgx.Tx, at decision.Account, decisions []*decision.Decision) (before, after *Snapshot, err error) {
	var decided []uuid.UUID
	for _, d := range decisions {
		if d.Tenant == at.Tenant {
			decided = append(decided, d.ID)
		}
	}
	if before, err = newest(ctx, tx, at, nil); err == nil {
		after, err = newest(ctx, tx, at, decided)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find the newest snapshot of account %s: %w", at.Name, err)
	}
	last := map[uuid.UUID]*decision.Decision{}
	for _, d := range decisions {
		last[d.ID] = d
	}
	for _, d := range last {
		if d.AsOf == nil || (decision.Account{Tenant: d.Tenant, Name: d.Account}) != at {
			continue
		}
		if s := (&Snapshot{Run: d.ID, AsOf: *d.AsOf, Feed: d.Feed}); s.newer(after) {
			after = s
		}
	}
	return before, after, nil
}

func newest(ctx context.Context, tx pgx.Tx, at decision.Account, without []uuid.UUID) (*Snapshot, error) {
	if without == nil {
		without = []uuid.UUID{}
	}
	rows, err := tx.Query(ctx, newestSQL, at.Tenant, at.Name, without)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Snapshot])
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// A Reading is a page of a snapshot as this transaction reads it under another mapping version.
type Reading struct {
	Delivery offer.DeliveryID
	Mapping  int
	Rejected int // rows
}

// IsRead reports whether a snapshot says which records it has, as its pages are read: each is under a mapping version that is in
// force, and no row is rejected by the newest. Decisions and readings are those that this transaction is about to record.
func IsRead(ctx context.Context, tx pgx.Tx, at decision.Account, s *Snapshot, decisions []*decision.Decision, readings []Reading) (is bool, err error) {
	var (
		deliveries         []uuid.UUID
		versions, rejected []int
		_, m               = changes(at, decisions)
	)
	for _, r := range readings {
		deliveries, versions, rejected = append(deliveries, uuid.UUID(r.Delivery)), append(versions, r.Mapping), append(rejected, r.Rejected)
	}
	if err := tx.QueryRow(ctx, isReadSQL, at.Tenant, s.Run, s.Feed, deliveries, versions, rejected, m.feeds, m.versions, m.standings).Scan(&is); err != nil {
		return false, fmt.Errorf("look how snapshot %s is read: %w", s.Run, err)
	}
	return is, nil
}

// What decisions say of deliveries that are read under a mapping version, and of mapping versions, in columns.
type changed struct {
	deliveries []uuid.UUID // of readings
	feeds      []string
	versions   []int
	standings  []int16
}

func changes(at decision.Account, decisions []*decision.Decision) (readings, mappings changed) {
	for _, d := range decisions {
		to := &mappings
		switch {
		case d.Tenant != at.Tenant:
			continue
		case d.Kind == decision.Reading:
			to = &readings
		case d.Kind != decision.Mapping:
			continue
		}
		to.deliveries, to.feeds = append(to.deliveries, uuid.UUID(d.Delivery)), append(to.feeds, d.Feed)
		to.versions, to.standings = append(to.versions, d.Mapping), append(to.standings, int16(d.Standing))
	}
	return readings, mappings
}

// lackingAtOnce is how many records Lacking returns at most.
const lackingAtOnce = 2000

// Lacking calls f with the records of an account that a snapshot lacks, and of which something weak is claimed as of before:
// with all of them, or with those that the numbers claim; some thousands at once. decisions are those that this transaction is
// about to record: by them too pages are read otherwise than before.
func Lacking(ctx context.Context, tx pgx.Tx, at decision.Account, s *Snapshot, all bool, n Numbers, decisions []*decision.Decision, f func(records []string) error) error {
	r, m := changes(at, decisions)
	for after := uuid.Nil; ; {
		rows, err := tx.Query(ctx, lackingSQL, at.Tenant, at.Name, s.Run, s.AsOf, all, after, n.Lanes, n.After, n.Last, lackingAtOnce,
			r.deliveries, r.feeds, r.versions, m.feeds, m.versions, m.standings)
		if err != nil {
			return fmt.Errorf("find what snapshot %s lacks: %w", s.Run, err)
		}
		var (
			id      uuid.UUID
			record  string
			records []string
		)
		if _, err := pgx.ForEachRow(rows, []any{&id, &record}, func() error { records, after = append(records, record), id; return nil }); err != nil {
			return fmt.Errorf("find what snapshot %s lacks: %w", s.Run, err)
		}
		if len(records) == 0 {
			return nil
		}
		if err := f(records); err != nil || len(records) < lackingAtOnce {
			return err
		}
	}
}

// Limits are what a run may do to its account and still count at once, each a share in percent, such as 30%; "": any.
type Limits struct {
	Lost    string // by how much a snapshot may have fewer records than its account has for sale
	Deleted string // of what is for sale, how much may be gone: claimed as deleted, or lacking in a snapshot
	Moved   string // by how much a price may rise or fall
}

// Judge holds a run that is whole against its account, by all that history holds: whole says that it is a snapshot of the account,
// else what is for sale is that of the records that it claims. It returns which limit the run is beyond, in words; "": none.
func Judge(ctx context.Context, tx pgx.Tx, at decision.Account, run uuid.UUID, whole bool, l Limits) (beyond string, err error) {
	var shares [3]*int64
	for i, text := range []string{l.Lost, l.Deleted, l.Moved} {
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
		if err != nil {
			return "", fmt.Errorf("hold run %s against its account: the limit %q: %w", run, text, err)
		}
		shares[i] = &n
	}
	lost, deleted, moved := shares[0], shares[1], shares[2]
	var live, claimed, gone, jumped int64
	if err := tx.QueryRow(ctx, judgeSQL, at.Tenant, at.Name, run, whole, moved).Scan(&live, &claimed, &gone, &jumped); err != nil {
		return "", fmt.Errorf("hold run %s against its account: %w", run, err)
	}
	switch {
	case whole && lost != nil && claimed*100 < live*(100-*lost):
		return fmt.Sprintf("max_rows_lost %s: it has %d records, and %d are for sale", l.Lost, claimed, live), nil
	case deleted != nil && gone*100 > live*(*deleted):
		return fmt.Sprintf("max_deleted %s: %d of %d records that are for sale would be gone", l.Deleted, gone, live), nil
	case moved != nil && jumped > 0:
		return fmt.Sprintf("max_price_move %s: %d prices would move by more", l.Moved, jumped), nil
	}
	return "", nil
}
