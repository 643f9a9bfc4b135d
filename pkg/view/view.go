// Package view keeps each offer as it now stands: the observation that wins, and what was last published of it.
//
// It owns the tables current_offer, publication, offer_change, projection, generation and generation_pointer. An event of the topic
// observations says which offer changed, and up to where in which lane; history says what is true up to there. So the
// row of an offer is always the fold of its history, bounded by the numbers that its partition has applied, and events
// that come twice, lanes that overtake one another, and a sighting that comes before what it restates need no case of
// their own. The comparison stands inside the write, and a row falls only by a decision: which claims count is part of the
// fold (package decision), and what a decision concerns is folded again when its event comes.
//
// Checkpoint, rows and publications change in one transaction: a crash before it leaves nothing, a crash after it all.
package view

import (
	"bytes"
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
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed apply.sql
var applySQL string

//go:embed concerned.sql
var concernedSQL string

//go:embed publish.sql
var publishSQL string

//go:embed unpublish.sql
var unpublishSQL string

// ErrBehind reports an event about an offer of which history holds nothing: the database is older than the log.
var ErrBehind = errors.New("history does not hold what the log tells")

// ErrRevision reports an offer that was published under a higher revision already: the lane has given its numbers twice.
var ErrRevision = errors.New("offers have a higher revision already")

// A Change is an offer that stands otherwise than it was last published.
type Change struct {
	Winner   history.Observation // without one any observation of the offer, for its Key
	None     bool                // no claim of the offer counts: there is no winner
	Flags    []string            // sorted
	Item     offer.Item          // that a link gives the winner; zero: none does
	Revision int64               // given by the caller: rising with each change of the offer
	digest   []byte              // nil: it is collected
}

// Collected reports whether the offer is deleted for so long that it is shown no more, not even as deleted: its row is gone.
func (c *Change) Collected() bool { return c.digest == nil }

// Apply folds offers from history, as far as the checkpoint covers it, and writes the rows that rank higher than what
// stands, or have other flags; where a decision concerns the offers, it writes whatever differs. It returns what has to be
// published of them, by tenant and offer. ErrBehind fails the transaction.
func Apply(ctx context.Context, tx pgx.Tx, c Checkpoint, offers []offer.Key, decided bool) ([]Change, error) {
	if len(offers) == 0 {
		return nil, nil
	}
	tenants, ids := columns(offers)
	lanes, applied := c.Applied.columns()
	rows, err := tx.Query(ctx, applySQL, c.Generation, c.Partition, lanes, applied, tenants, ids, decided)
	if err != nil {
		return nil, fmt.Errorf("apply %d offers: %w", len(offers), err)
	}
	changes, err := pgx.CollectRows(rows, scanChange)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23502" { // the statement writes nulls for an offer without history
		err = fmt.Errorf("%w: %s: restore the newest backup of the database", ErrBehind, pg.Detail)
	}
	if err != nil {
		return nil, fmt.Errorf("apply %d offers: %w", len(offers), err)
	}
	return changes, nil
}

func scanChange(row pgx.CollectableRow) (c Change, err error) {
	var (
		o    history.Row
		item []string
	)
	if err := row.Scan(append(o.Into(), &c.Flags, &c.None, &item, &c.digest)...); err != nil {
		return c, err
	}
	c.Item = offer.ItemOf(item)
	c.Winner, err = o.Observation()
	return c, err
}

// concernedAtOnce is how many offers one part of Concerned holds.
const concernedAtOnce = 2000

// Concerned yields, in parts and by id, the offers that the checkpoint's partition has a row of and that decisions concern: on
// subjects that are one of decision.Groups. An offer without a row is folded when its first event comes. Between parts the caller
// may use tx.
func Concerned(ctx context.Context, tx pgx.Tx, c Checkpoint, subjects []decision.Subject) iter.Seq2[[]offer.Key, error] {
	s := subjects[0]
	ids := make([][16]byte, len(subjects))
	for i, s := range subjects {
		ids[i] = s.ID
	}
	return func(yield func([]offer.Key, error) bool) {
		failed := func(err error) {
			yield(nil, fmt.Errorf("find the offers that %d decisions from that on %s %s concern: %w", len(subjects), s.Kind, s.ID, err))
		}
		lanes, applied := c.Applied.columns()
		if _, err := tx.Exec(ctx, "DECLARE concerned NO SCROLL CURSOR FOR\n"+concernedSQL, c.Generation, c.Partition, s.Tenant, ids, s.Kind, lanes, applied); err != nil {
			failed(err)
			return
		}
		for {
			rows, err := tx.Query(ctx, "FETCH "+strconv.Itoa(concernedAtOnce)+" FROM concerned")
			if err != nil {
				failed(err)
				return
			}
			keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k offer.Key, err error) {
				k.Tenant = s.Tenant
				return k, row.Scan(&k.Account, &k.Record)
			})
			if err != nil {
				failed(err)
				return
			}
			if len(keys) > 0 && !yield(keys, nil) {
				return
			}
			if len(keys) < concernedAtOnce {
				break
			}
		}
		if _, err := tx.Exec(ctx, "CLOSE concerned"); err != nil {
			failed(err)
		}
	}
}

// columns returns the keys of offers, sorted: two transactions lock common rows in one order. The ids are bytes, which go to the
// server as they are, and not as texts.
func columns(offers []offer.Key) (tenants []string, ids [][16]byte) {
	type row struct {
		tenant string
		id     [16]byte
	}
	rows := make([]row, len(offers))
	for i, k := range offers {
		rows[i] = row{k.Tenant, k.ID()}
	}
	slices.SortFunc(rows, func(a, b row) int {
		if c := strings.Compare(a.tenant, b.tenant); c != 0 {
			return c
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	for _, r := range slices.Compact(rows) {
		tenants, ids = append(tenants, r.tenant), append(ids, r.id)
	}
	return tenants, ids
}

// Publish notes changes, with their revisions, as what is published from a time on; of what is collected nothing is. A revision
// that does not rise is ErrRevision.
func Publish(ctx context.Context, tx pgx.Tx, changes []Change, from time.Time) error {
	var shown, gone publications
	for i := range changes {
		if c := &changes[i]; c.Collected() {
			gone.add(c)
		} else {
			shown.add(c)
		}
	}
	err := shown.note(ctx, tx, publishSQL, shown.tenants, shown.ids, shown.revisions, shown.digests, shown.strong, shown.ords, shown.observations, shown.flags, from, shown.items)
	if err != nil {
		return err
	}
	return gone.note(ctx, tx, unpublishSQL, gone.tenants, gone.ids, gone.revisions, from)
}

// publications are columns of changes.
type publications struct {
	tenants, flags []string
	items          []string // "": no link gives one
	ids            [][16]byte
	revisions      []int64
	digests        [][]byte
	strong         []*bool // of the observation shown; nil: none is
	ords           []*int64
	observations   []pgtype.UUID
}

func (p *publications) add(c *Change) {
	p.tenants, p.ids, p.flags = append(p.tenants, c.Winner.Key.Tenant), append(p.ids, c.Winner.Offer), append(p.flags, strings.Join(c.Flags, ","))
	item := ""
	if c.Item != (offer.Item{}) {
		item = strings.Join(c.Item.Fields(), "\x1f") // which no text of an item holds
	}
	p.items = append(p.items, item)
	p.revisions, p.digests = append(p.revisions, c.Revision), append(p.digests, c.digest)
	var (
		strong      *bool
		ord         *int64
		observation pgtype.UUID
	)
	if !c.None {
		r := c.Winner.Rank
		strong, ord, observation = &r.Strong, &r.Order, pgtype.UUID{Bytes: r.ID, Valid: true}
	}
	p.strong, p.ords, p.observations = append(p.strong, strong), append(p.ords, ord), append(p.observations, observation)
}

func (p *publications) note(ctx context.Context, tx pgx.Tx, statement string, columns ...any) error {
	n := len(p.ids)
	if n == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, statement, columns...)
	if err != nil {
		return fmt.Errorf("publish %d offers: %w", n, err)
	}
	if tag.RowsAffected() != int64(n) {
		return fmt.Errorf("publish %d offers, of %d: %w", n, int64(n)-tag.RowsAffected(), ErrRevision)
	}
	return nil
}

// StateNone is that of an offer of which no claim counts.
const StateNone = "none"

// A Document is the JSON form of an offer as it stands: its winning observation, and what the view adds. A deleted offer
// is one with "deleted": true.
type Document struct {
	history.Document
	// ItemClaimed is what the source says of the item, where a link says that it is the one in Item.
	ItemClaimed *offer.Item `json:"item_claimed,omitempty"`
	Flags       []string    `json:"flags,omitempty"`
	State       string      `json:"state,omitempty"` // StateNone: there is no winner, only the offer's key
	Revision    int64       `json:"revision"`        // 0: not published yet
	// LastSeenAt is when the source was last seen to say this: the latest retrieved_at of the winner's claims. Only reads
	// carry it; what is published changes with the content alone.
	LastSeenAt   string        `json:"last_seen_at,omitempty"`
	FreshnessGap *FreshnessGap `json:"freshness_gap,omitempty"`
}

// documentOf shows an observation, with the item that a link gives it: zero for none.
func documentOf(o *history.Observation, linked offer.Item) Document {
	d := Document{Document: o.Document()}
	if linked != (offer.Item{}) {
		d.ItemClaimed, d.Item = new(d.Item), linked
	}
	return d
}

// Offer is the row that the document shows, from its text alone: whoever has the documents of a generation can derive its digest.
func (d *Document) Offer() (Offer, error) {
	o := Offer{Key: offer.Key{Tenant: d.Tenant, Account: d.Account, Record: d.Record}, Deleted: d.Deleted}
	if o.None = d.State == StateNone; o.None {
		return o, nil
	}
	content := d.Content
	if d.ItemClaimed != nil {
		o.Item, content.Item = d.Item, *d.ItemClaimed
	}
	o.Flags = strings.Join(d.Flags, ",")
	o.Rank = offer.Rank{Strong: d.Order == offer.Strength(true), Mapping: d.MappingVersion, Content: content.Digest()}
	id, err := uuid.Parse(d.ObservationID)
	o.Rank.ID = offer.ObservationID(id)
	if err == nil && o.Rank.Strong {
		o.Rank.Order, err = strconv.ParseInt(d.Version, 10, 64)
	} else if err == nil {
		var at offer.Time
		at, err = offer.ParseTime(d.ObservedAt)
		o.Rank.Order = at.Nanos
	}
	if err != nil {
		return o, fmt.Errorf("read the document of offer %s: %w", o.Key, err)
	}
	return o, nil
}

// Document is the offer after the change. One of which no claim counts any more is a deleted one, with its key.
func (c *Change) Document() Document {
	if !c.None {
		d := documentOf(&c.Winner, c.Item)
		d.Flags, d.Revision = c.Flags, c.Revision
		return d
	}
	k := c.Winner.Key
	return Document{Document: history.Document{Tenant: k.Tenant, Account: k.Account, Record: k.Record, Content: offer.Content{Deleted: true}},
		State: StateNone, Revision: c.Revision}
}

// Body is the JSON of the offer after the change. One of which no claim counts any more has its key and nothing else. One that is
// collected has none, which removes it from a compacted topic.
func (c *Change) Body() ([]byte, error) {
	if c.Collected() {
		return nil, nil
	}
	if !c.None {
		return json.Marshal(c.Document())
	}
	return json.Marshal(struct {
		Tenant   string `json:"tenant"`
		Account  string `json:"supplier_account"`
		Record   string `json:"source_record"`
		Deleted  bool   `json:"deleted"`
		State    string `json:"state"`
		Revision int64  `json:"revision"`
	}{c.Winner.Key.Tenant, c.Winner.Key.Account, c.Winner.Key.Record, true, StateNone, c.Revision})
}
