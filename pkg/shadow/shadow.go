// Package shadow lets a transaction add to history beside everybody: what it writes it alone sees, and at its end nothing of it is
// left.
//
// It owns temporary tables with the names of observation, sighting, decision and snapshot_record. PostgreSQL looks among a session's temporary
// tables first, so after Begin whatever the transaction asks by these names, the function fold included, is answered from them: the
// statements by which ingest writes, and the rule by which offers are shown, are the ones that are used for real. Nobody waits for
// it, since it takes no lock that anybody else wants.
package shadow

import (
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed begin.sql
	beginSQL string
	//go:embed bring.sql
	bringSQL string
	//go:embed compare.sql
	compareSQL string
)

// Lane is the one that what is added is numbered in. No input has it.
const Lane = -1

// A Vector is of each lane the last number that history holds.
type Vector struct {
	Lanes []int
	UpTo  []int64
}

// Begin makes the tables, empty but for the decisions of the transaction's tenant, and returns where history stands. The transaction
// is one of postgres.Aside.
func Begin(ctx context.Context, tx pgx.Tx) (v Vector, err error) {
	if err := tx.QueryRow(ctx, "SELECT array_agg(l.id), array_agg(l.sequence) FROM lane AS l WHERE l.kind = 'input'").Scan(&v.Lanes, &v.UpTo); err != nil {
		return v, fmt.Errorf("begin a shadow of history: %w", err)
	}
	if _, err := tx.Conn().PgConn().Exec(ctx, beginSQL).ReadAll(); err != nil {
		return v, fmt.Errorf("begin a shadow of history: %w", err)
	}
	return v, nil
}

// Bring adds the history of offers, of those that are named and of those that deliveries have claims of; once each.
func Bring(ctx context.Context, tx pgx.Tx, deliveries []offer.DeliveryID, offers []offer.OfferID) error {
	ids, keys := make([]uuid.UUID, len(deliveries)), make([]uuid.UUID, len(offers))
	for i, d := range deliveries {
		ids[i] = uuid.UUID(d)
	}
	for i, o := range offers {
		keys[i] = uuid.UUID(o)
	}
	if _, err := tx.Exec(ctx, bringSQL, ids, keys); err != nil {
		return fmt.Errorf("bring the history of offers: %w", err)
	}
	return nil
}

// A State is what an offer shows.
type State struct {
	Deleted bool              `json:"deleted,omitempty"`
	Says    map[string]string `json:"says"` // by field, each as its JSON has it, texts without quotes
}

// A Change is what comes of one offer.
type Change struct {
	Account string   `json:"supplier_account"`
	Record  string   `json:"source_record"`
	What    string   `json:"what"`             // Appears | Vanishes | Changes; "": nothing
	Fields  []string `json:"fields,omitempty"` // of Changes: those that differ
	Was     *State   `json:"was,omitempty"`    // nil: no claim counts
	Will    *State   `json:"will,omitempty"`
}

// What comes of an offer.
const (
	Appears  = "appears"  // it is for sale, and was not
	Vanishes = "vanishes" // it was for sale, and is not
	Changes  = "changes"  // it says something else
)

// Compare calls f with every offer that was brought, by account and record: what it showed where history stood, and what it shows
// with what was added.
func Compare(ctx context.Context, tx pgx.Tx, v Vector, f func(c Change)) error {
	rows, err := tx.Query(ctx, compareSQL, v.Lanes, v.UpTo, Lane)
	if err != nil {
		return fmt.Errorf("compare offers: %w", err)
	}
	var (
		c                  Change
		wasDeleted, isGone *bool
		wasSays, willSay   map[string]json.RawMessage
	)
	_, err = pgx.ForEachRow(rows, []any{&c.Account, &c.Record, &wasDeleted, &wasSays, &isGone, &willSay}, func() error {
		c.Was, c.Will = state(wasDeleted, wasSays), state(isGone, willSay)
		c.judge()
		f(c)
		wasSays, willSay = nil, nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare offers: %w", err)
	}
	return nil
}

func state(deleted *bool, says map[string]json.RawMessage) *State {
	if deleted == nil {
		return nil
	}
	s := &State{Deleted: *deleted, Says: make(map[string]string, len(says))}
	for field, v := range says {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v)
		}
		s.Says[field] = text
	}
	return s
}

// judge says what comes of the offer.
func (c *Change) judge() {
	c.What, c.Fields = "", nil
	sold := func(s *State) bool { return s != nil && !s.Deleted }
	switch {
	case !sold(c.Was) && !sold(c.Will):
		return
	case !sold(c.Was):
		c.What = Appears
		return
	case !sold(c.Will):
		c.What = Vanishes
		return
	}
	for field, v := range c.Was.Says {
		if other, has := c.Will.Says[field]; !has || other != v {
			c.Fields = append(c.Fields, field)
		}
	}
	for field := range c.Will.Says {
		if _, had := c.Was.Says[field]; !had {
			c.Fields = append(c.Fields, field)
		}
	}
	if slices.Sort(c.Fields); len(c.Fields) > 0 {
		c.What = Changes
	}
}

// Added is how many observations were added, and their digest: the sum modulo 2^256 of the SHA-256 of each one's id and content digest, so
// that order plays no part.
func Added(ctx context.Context, tx pgx.Tx) (n int64, sum offer.Digest, err error) {
	rows, err := tx.Query(ctx, "SELECT o.id, o.content FROM observation AS o WHERE o.lane = $1", Lane)
	if err != nil {
		return 0, sum, fmt.Errorf("sum what was added: %w", err)
	}
	var (
		id      uuid.UUID
		content []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &content}, func() error {
		n++
		sum = sum.Plus(offer.Sum(append(id[:], content...)))
		return nil
	})
	if err != nil {
		return 0, sum, fmt.Errorf("sum what was added: %w", err)
	}
	return n, sum, nil
}
