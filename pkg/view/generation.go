package view

import (
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed make.sql
	makeSQL string
	//go:embed history.sql
	historySQL string
	//go:embed plain.sql
	plainSQL string
	//go:embed decided.sql
	decidedSQL string
	//go:embed fill.sql
	fillSQL string
	//go:embed derive.sql
	deriveSQL string
	//go:embed wrong.sql
	wrongSQL string
	//go:embed unclaimed.sql
	unclaimedSQL string
	//go:embed inputs.sql
	inputsSQL string
	//go:embed export.sql
	exportSQL string
	//go:embed manifest_of.sql
	manifestOfSQL string
	//go:embed differing.sql
	differingSQL string
	//go:embed generations.sql
	generationsSQL string
	//go:embed manifest.sql
	manifestSQL string
	//go:embed note.sql
	noteSQL string
	//go:embed point.sql
	pointSQL string
	//go:embed retire.sql
	retireSQL string
	//go:embed mappings.sql
	mappingsSQL string
	//go:embed before.sql
	beforeSQL string
)

// ErrNoGeneration reports a generation that there is not, or that is retired.
var ErrNoGeneration = errors.New("no such generation")

// What operators do with generations.
const (
	Built      = "build"
	Switched   = "switch"
	RolledBack = "rollback"
	Retired    = "retire"
)

// A Generation is one complete build of the view, or one that is to become so.
type Generation struct {
	ID        int        `json:"generation"`
	CreatedAt time.Time  `json:"created_at"`
	RetiredAt *time.Time `json:"retired_at,omitempty"`
	Active    bool       `json:"active"` // readers see it
	Manifest  *Manifest  `json:"manifest,omitempty"`
}

// ManifestSchema names the form of a Manifest: schemas/manifest.v1.json.
const ManifestSchema = "manifest.v1"

// A Manifest says what a generation held when it was last found complete, and by which inputs: from history, which only grows, the
// same can be derived at any time. It does not say whether the generation is complete: that is found by counting and hashing.
type Manifest struct {
	Schema     string       `json:"schema"`
	Generation int          `json:"generation"`
	Tick       int64        `json:"tick"`       // the newest recorded moment by then; 0: there was none
	Partitions []Position   `json:"partitions"` // how far it was projected
	Part                    // of all tenants
	Tenants    []TenantPart `json:"tenants"`
}

// A TenantPart is what a manifest says of a tenant.
type TenantPart struct {
	Tenant   string           `json:"tenant"`
	Mappings []MappingVersion `json:"mappings"` // that the offers shown were read under
	Part
}

// A Part is rows, and the claims that they follow from. Those of parts add up.
type Part struct {
	Inputs Inputs `json:"inputs"`
	Rows
}

// Plus is both parts together.
func (p Part) Plus(other Part) Part {
	return Part{Inputs{p.Inputs.Claims + other.Inputs.Claims, p.Inputs.Digest.Plus(other.Inputs.Digest)}, p.Rows.Plus(other.Rows)}
}

// Inputs are the claims that history holds of offers: the first ones and those that restate them.
type Inputs struct {
	Claims int64        `json:"claims"`
	Digest offer.Digest `json:"digest"` // the sum of those of each offer's claims
}

// Rows are counted and hashed.
type Rows struct {
	Counts
	Digest offer.Digest `json:"digest"` // as Sum has it
}

// Add counts and hashes an offer.
func (r *Rows) Add(o Offer) {
	r.Offers++
	if o.Deleted {
		r.Deleted++
	}
	r.Digest = r.Digest.Plus(o.digest())
}

// Plus is both together.
func (r Rows) Plus(other Rows) Rows {
	return Rows{Counts{r.Offers + other.Offers, r.Deleted + other.Deleted}, r.Digest.Plus(other.Digest)}
}

// Counts are of rows.
type Counts struct {
	Offers  int64 `json:"offers"`
	Deleted int64 `json:"deleted"` // of these; those of which no claim counts among them
}

// A MappingVersion names a reading of a feed.
type MappingVersion struct {
	Feed    string `json:"feed"`
	Version int    `json:"version"` // 0: deletions that a snapshot implies
}

// A Position is how far a partition of observations was projected.
type Position struct {
	Partition int32     `json:"partition"`
	TopicID   uuid.UUID `json:"topic_id"`
	Next      int64     `json:"next"`
	Lanes     []int     `json:"lanes"`
	UpTo      []int64   `json:"upto"` // the number reached of each of the lanes
}

// Position is the checkpoint as a manifest has it.
func (c Checkpoint) Position() Position {
	lanes, applied := c.Applied.columns()
	return Position{c.Partition, c.TopicID, c.Next, lanes, applied}
}

// Checkpoint is the position as one of a generation.
func (p Position) Checkpoint(generation int) Checkpoint {
	c := Checkpoint{Generation: generation, Partition: p.Partition, TopicID: p.TopicID, Next: p.Next, Applied: make(Vector, len(p.Lanes))}
	for i, l := range p.Lanes {
		c.Applied[l] = p.UpTo[i]
	}
	return c
}

// Generations returns all of them, the oldest first.
func Generations(ctx context.Context, q Querier) ([]Generation, error) {
	rows, err := q.Query(ctx, generationsSQL)
	if err != nil {
		return nil, fmt.Errorf("read the generations: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g Generation, err error) {
		var manifest []byte
		if err := row.Scan(&g.ID, &g.CreatedAt, &g.RetiredAt, &g.Active, &manifest); err != nil || manifest == nil {
			return g, err
		}
		return g, json.Unmarshal(manifest, &g.Manifest)
	})
	if err != nil {
		return nil, fmt.Errorf("read the generations: %w", err)
	}
	return list, nil
}

// Make makes a generation at the places where the active one stands: from here on every batch is projected into it too. Filled it
// is by Fill.
func Make(ctx context.Context, tx pgx.Tx) (id int, err error) {
	list, err := take(ctx, tx, nil)
	if err == nil && len(list) == 0 {
		err = ErrNoCheckpoint
	}
	if err == nil {
		err = tx.QueryRow(ctx, makeSQL).Scan(&id)
	}
	if err != nil {
		return 0, fmt.Errorf("make a generation: %w", err)
	}
	return id, nil
}

// A Place is an offer in the order of History; the zero value is before all.
type Place struct {
	Tenant string
	Offer  uuid.UUID
}

// A Newest is an offer that history knows, and the newest observation of it.
type Newest struct {
	Key  offer.Key
	Rank offer.Rank
	// Plain says that the offer shows this, wherever what it stands on has been projected: nothing that was decided, no other
	// observation and no time makes a difference.
	Plain bool
	id    uuid.UUID
	on    []number
}

// A number is one of a lane.
type number struct {
	lane int
	seq  int64
}

// History returns the next offers after a place that history knows, at most so many, and the place of the last.
func History(ctx context.Context, q Querier, after Place, limit int) (offers []Newest, last Place, err error) {
	rows, err := q.Query(ctx, historySQL, after.Tenant, after.Offer, limit)
	if err != nil {
		return nil, after, fmt.Errorf("read the offers of history: %w", err)
	}
	last = after
	offers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n Newest, err error) {
		var (
			said    number
			lane    *int
			seq     *int64
			content []byte
			id      uuid.UUID
		)
		err = row.Scan(&last.Tenant, &last.Offer, &n.Key.Account, &n.Key.Record, &n.Rank.Strong, &n.Rank.Order, &n.Rank.Mapping, &content, &id,
			&said.lane, &said.seq, &lane, &seq, &n.Plain)
		n.Key.Tenant, n.id, n.Rank.ID, n.on = last.Tenant, last.Offer, offer.ObservationID(id), []number{said}
		copy(n.Rank.Content[:], content)
		if lane != nil {
			n.on = append(n.on, number{*lane, *seq})
		}
		return n, err
	})
	if err != nil {
		return nil, after, fmt.Errorf("read the offers of history: %w", err)
	}
	return offers, last, nil
}

// Keys are those of offers.
func Keys(offers []Newest) []offer.Key {
	keys := make([]offer.Key, len(offers))
	for i := range offers {
		keys[i] = offers[i].Key
	}
	return keys
}

// Fill writes the rows that a generation lacks of offers of a partition, as far as the partition is projected. The rows that it has
// stay, so doing it again does nothing. The offers were read after the checkpoint, and out of the partition's lock: the offers that
// plainly show their newest observation are written as they were read, unless decisions were projected meanwhile, and the others are
// folded. An offer that was claimed again meanwhile has its row. It returns where the generation stands by now.
func Fill(ctx context.Context, tx pgx.Tx, read Checkpoint, offers []Newest) (c Checkpoint, err error) {
	list, err := Take(ctx, tx, read.Partition)
	if err != nil {
		return c, err
	}
	i := slices.IndexFunc(list, func(c Checkpoint) bool { return c.Generation == read.Generation })
	if i < 0 {
		return c, fmt.Errorf("fill generation %d: %w", read.Generation, ErrNoGeneration)
	}
	c = list[i]
	if err := fill(ctx, tx, read.Applied, c, offers); err != nil {
		return c, fmt.Errorf("fill generation %d with %d offers: %w", c.Generation, len(offers), err)
	}
	return c, nil
}

func fill(ctx context.Context, tx pgx.Tx, read Vector, c Checkpoint, offers []Newest) error {
	decided, err := decidedBetween(ctx, tx, read, c.Applied)
	if err != nil {
		return err
	}
	var (
		folded                    []offer.Key
		tenants, accounts, record []string
		ids, observations         [][16]byte
		strong                    []bool
		orders                    []int64
		mappings                  []int
		contents                  [][]byte
	)
	for i := range offers {
		n := &offers[i]
		if !n.Plain || decided || !c.Applied.covers(n.on) {
			folded = append(folded, n.Key)
			continue
		}
		tenants, ids = append(tenants, n.Key.Tenant), append(ids, n.id)
		accounts, record = append(accounts, n.Key.Account), append(record, n.Key.Record)
		strong, orders, mappings = append(strong, n.Rank.Strong), append(orders, n.Rank.Order), append(mappings, n.Rank.Mapping)
		contents, observations = append(contents, n.Rank.Content[:]), append(observations, n.Rank.ID)
	}
	if len(tenants) > 0 {
		_, err := tx.Exec(ctx, plainSQL, c.Generation, c.Partition, tenants, ids, accounts, record, strong, orders, mappings, contents, observations)
		if err != nil {
			return err
		}
	}
	if len(folded) > 0 {
		tenants, ids := columns(folded)
		lanes, applied := c.Applied.columns()
		if _, err := tx.Exec(ctx, fillSQL, c.Generation, c.Partition, lanes, applied, tenants, ids); err != nil {
			return err
		}
	}
	return nil
}

// decidedBetween reports whether there are decisions behind one vector and within another.
func decidedBetween(ctx context.Context, tx pgx.Tx, after, upTo Vector) (found bool, err error) {
	var lanes []int
	var from, to []int64
	for l, n := range upTo {
		if n > after[l] {
			lanes, from, to = append(lanes, l), append(from, after[l]), append(to, n)
		}
	}
	if len(lanes) == 0 {
		return false, nil
	}
	err = tx.QueryRow(ctx, decidedSQL, lanes, from, to).Scan(&found)
	return found, err
}

// Derive yields what a generation must hold of offers at a checkpoint, from history alone.
func Derive(ctx context.Context, q Querier, c Checkpoint, offers []offer.Key) ([]Offer, error) {
	tenants, ids := columns(offers)
	lanes, applied := c.Applied.columns()
	rows, err := q.Query(ctx, deriveSQL, lanes, applied, tenants, ids)
	if err != nil {
		return nil, fmt.Errorf("derive %d offers: %w", len(offers), err)
	}
	list, err := pgx.CollectRows(rows, scanOffer)
	if err != nil {
		return nil, fmt.Errorf("derive %d offers: %w", len(offers), err)
	}
	return list, nil
}

// Claimed returns how many claims history holds of offers at a checkpoint, and their digest, by tenant.
func Claimed(ctx context.Context, q Querier, c Checkpoint, offers []offer.Key) (map[string]Inputs, error) {
	tenants, ids := columns(offers)
	lanes, applied := c.Applied.columns()
	rows, err := q.Query(ctx, inputsSQL, lanes, applied, tenants, ids)
	if err != nil {
		return nil, fmt.Errorf("digest the claims of %d offers: %w", len(offers), err)
	}
	found := map[string]Inputs{}
	var (
		tenant string
		n      int64
		digest []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&tenant, &n, &digest}, func() error {
		in := found[tenant]
		found[tenant] = Inputs{in.Claims + n, in.Digest.Plus(offer.Digest(digest))}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("digest the claims of %d offers: %w", len(offers), err)
	}
	return found, nil
}

// A Wrong row is one that a generation lacks, has too many, or has otherwise than history says.
type Wrong struct {
	offer.Key
	How string // missing, extra, differs
}

// WrongOf returns which of offers, all of the checkpoint's partition, a generation does not show as history says there.
func WrongOf(ctx context.Context, q Querier, c Checkpoint, offers []offer.Key) ([]Wrong, error) {
	tenants, ids := columns(offers)
	lanes, applied := c.Applied.columns()
	return wrong(ctx, q, wrongSQL, c.Generation, lanes, applied, tenants, ids, c.Partition)
}

// Unclaimed returns at most so many rows of a generation that are of offers of which history holds nothing.
func Unclaimed(ctx context.Context, q Querier, generation, limit int) ([]Wrong, error) {
	return wrong(ctx, q, unclaimedSQL, generation, limit)
}

func wrong(ctx context.Context, q Querier, statement string, args ...any) ([]Wrong, error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("compare rows with history: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Wrong, err error) {
		return w, row.Scan(&w.Tenant, &w.Account, &w.Record, &w.How)
	})
	if err != nil {
		return nil, fmt.Errorf("compare rows with history: %w", err)
	}
	return list, nil
}

// Differing returns what a generation shows of the offers of a checkpoint's partition otherwise than was published. What was
// published of an offer that it lacks, and that another generation has, is collected.
func Differing(ctx context.Context, tx pgx.Tx, c Checkpoint, other int) ([]Change, error) {
	rows, err := tx.Query(ctx, differingSQL, c.Generation, c.Partition, other)
	if err != nil {
		return nil, fmt.Errorf("compare generation %d with what is published: %w", c.Generation, err)
	}
	changes, err := pgx.CollectRows(rows, scanChange)
	if err != nil {
		return nil, fmt.Errorf("compare generation %d with what is published: %w", c.Generation, err)
	}
	return changes, nil
}

// Mappings returns which readings a generation shows, by tenant.
func Mappings(ctx context.Context, q Querier, generation int) (map[string][]MappingVersion, error) {
	rows, err := q.Query(ctx, mappingsSQL, generation)
	if err != nil {
		return nil, fmt.Errorf("read the mappings of generation %d: %w", generation, err)
	}
	found := map[string][]MappingVersion{}
	var (
		tenant string
		m      MappingVersion
	)
	_, err = pgx.ForEachRow(rows, []any{&tenant, &m.Feed, &m.Version}, func() error {
		found[tenant] = append(found[tenant], m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the mappings of generation %d: %w", generation, err)
	}
	return found, nil
}

// ManifestOf returns what the manifest of a generation says of the transaction's tenant; nil where it has none.
func ManifestOf(ctx context.Context, q Querier, generation int) (*Manifest, error) {
	rows, err := q.Query(ctx, manifestOfSQL, generation)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of generation %d: %w", generation, err)
	}
	m, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*Manifest])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of generation %d: %w", generation, err)
	}
	return m, nil
}

// SetManifest keeps the manifest of a generation.
func SetManifest(ctx context.Context, tx pgx.Tx, m Manifest) error {
	b, err := json.Marshal(m)
	if err == nil {
		_, err = tx.Exec(ctx, manifestSQL, m.Generation, b)
	}
	if err != nil {
		return fmt.Errorf("write the manifest of generation %d: %w", m.Generation, err)
	}
	return nil
}

// Note keeps what an operator did with a generation, and why.
func Note(ctx context.Context, tx pgx.Tx, action string, generation int, actor, reason string) error {
	if _, err := tx.Exec(ctx, noteSQL, action, generation, actor, reason); err != nil {
		return fmt.Errorf("note the %s of generation %d: %w", action, generation, err)
	}
	return nil
}

// Before returns the generation that was active before the last switch; pgx.ErrNoRows where there was none.
func Before(ctx context.Context, tx pgx.Tx) (id int, err error) {
	if err := tx.QueryRow(ctx, beforeSQL).Scan(&id); err != nil {
		return 0, fmt.Errorf("find the generation before: %w", err)
	}
	return id, nil
}

// Each calls f with each row of a generation, by tenant and the offer's id, as a change that makes it so.
func Each(ctx context.Context, q Querier, generation int, f func(*Change) error) error {
	rows, err := q.Query(ctx, exportSQL, generation)
	if err != nil {
		return fmt.Errorf("read generation %d: %w", generation, err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			r    history.Row
			c    Change
			item []string
		)
		if err := rows.Scan(append(r.Into(), &c.Flags, &c.None, &item, &c.digest, &c.Revision)...); err != nil {
			return fmt.Errorf("read generation %d: %w", generation, err)
		}
		if c.Winner, err = r.Observation(); err != nil {
			return fmt.Errorf("read generation %d: %w", generation, err)
		}
		c.Item = offer.ItemOf(item)
		if err := f(&c); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read generation %d: %w", generation, err)
	}
	return nil
}

// Count counts the rows of a generation.
func Count(ctx context.Context, tx pgx.Tx, generation int) (n Counts, err error) {
	const query = "SELECT count(*), count(*) FILTER (WHERE c.deleted) FROM current_offer AS c WHERE c.generation = $1"
	if err := tx.QueryRow(ctx, query, generation).Scan(&n.Offers, &n.Deleted); err != nil {
		return n, fmt.Errorf("count generation %d: %w", generation, err)
	}
	return n, nil
}

// Hold locks the checkpoints of all partitions, and with them the pointer, and returns which generation is the active one. Whoever
// moves the pointer, retires a generation or notes a decision holds them.
func Hold(ctx context.Context, tx pgx.Tx) (active int, err error) {
	if _, err := take(ctx, tx, nil); err != nil {
		return 0, fmt.Errorf("lock all checkpoints: %w", err)
	}
	return Active(ctx, tx)
}

// Point makes a generation the active one: readers see it from the commit on, and each partition hands over with its next batch. The
// transaction holds all checkpoints.
func Point(ctx context.Context, tx pgx.Tx, generation int) error {
	tag, err := tx.Exec(ctx, pointSQL, generation)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNoGeneration
	}
	if err != nil {
		return fmt.Errorf("switch to generation %d: %w", generation, err)
	}
	return nil
}

// Retire ends a generation that is not active and that no partition publishes: nothing more is projected into it. The transaction
// holds all checkpoints.
func Retire(ctx context.Context, tx pgx.Tx, generation int) error {
	tag, err := tx.Exec(ctx, retireSQL, generation)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNoGeneration
	}
	if err != nil {
		return fmt.Errorf("retire generation %d: %w", generation, err)
	}
	return nil
}

// Clear removes at most so many rows of a generation that is retired, and returns how many.
func Clear(ctx context.Context, tx pgx.Tx, generation, limit int) (n int64, err error) {
	if err := tx.QueryRow(ctx, "SELECT clear($1, $2)", generation, limit).Scan(&n); err != nil {
		return 0, fmt.Errorf("remove the rows of generation %d: %w", generation, err)
	}
	return n, nil
}
