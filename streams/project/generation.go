package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/export"
	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
)

// Refusals of a generation.
var (
	// ErrIncomplete reports a generation that does not hold what history says.
	ErrIncomplete = errors.New("the generation does not hold what history says")
	// ErrShrunken reports a generation that is empty, or has far fewer offers for sale than the active one.
	ErrShrunken = errors.New("the generation has far fewer offers than the active one")
	// ErrNotBefore reports that there is no generation to go back to.
	ErrNotBefore = errors.New("no other generation was active before")
	// ErrMoved reports that somebody else moved the pointer while a generation was being proved.
	ErrMoved = errors.New("the pointer was moved meanwhile")
	// ErrInUse reports a generation that readers see, or that a partition still publishes.
	ErrInUse = errors.New("the generation is in use")
)

// A Command is what an operator does with a generation: who, and why.
type Command struct{ Actor, Reason string }

// readAtOnce is how many offers of history, for each partition, are looked at together, and writeAtOnce how many of a partition are
// written in one transaction, for which the partition waits.
const (
	readAtOnce  = 1000
	writeAtOnce = 500
)

// clearAtOnce is how many rows of a retired generation go in one transaction.
const clearAtOnce = 10_000

// shrunken is the part of the active generation's offers for sale below which a generation needs a reason.
const shrunken = 0.9

// Make makes a generation beside the active one, into which every batch is projected from now on. Fill does the rest.
func Make(ctx context.Context, pool *pgxpool.Pool, c Command) (id int, err error) {
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
		if id, err = view.Make(ctx, tx); err != nil {
			return err
		}
		return view.Note(ctx, tx, view.Built, id, c.Actor, c.Reason)
	})
	return id, err
}

// Fill writes the rows of a generation from history, and tells progress how many offers it has looked at. It may be done again, by
// anybody and at any time: what is there stays. Live projection goes on beside it.
func Fill(ctx context.Context, pool *pgxpool.Pool, id int, progress func(offers int)) error {
	done, live := 0, false
	p, err := readPage(ctx, pool, id, view.Place{})
	for err == nil && len(p.offers) > 0 {
		var next page
		g, ctx := errgroup.WithContext(ctx)
		if live {
			g.SetLimit(1) // one after the other: the live batches need what they can get
		}
		g.Go(func() (err error) {
			live, err = p.write(ctx, pool, func(offers int) { done += offers; progress(done) })
			return err
		})
		g.Go(func() (err error) {
			next, err = readPage(ctx, pool, id, p.last)
			return err
		})
		err = g.Wait()
		p = next
	}
	return err
}

// A page is offers of history, behind those of the page before, with the checkpoints of a generation as they stood when it was read.
type page struct {
	checkpoints []view.Checkpoint
	offers      []view.Newest
	last        view.Place
}

func readPage(ctx context.Context, pool *pgxpool.Pool, id int, after view.Place) (p page, err error) {
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
		if p.checkpoints, err = checkpointsOf(ctx, tx, id); err == nil {
			p.offers, p.last, err = view.History(ctx, tx, after, readAtOnce*len(p.checkpoints)) // none where nothing is projected yet
		}
		return err
	})
	return p, err
}

// write fills the generation with the page, and reports whether something was projected meanwhile.
func (p *page) write(ctx context.Context, pool *pgxpool.Pool, written func(offers int)) (live bool, err error) {
	for i, offers := range byPartition(p.checkpoints, p.offers) {
		for part := range slices.Chunk(offers, writeAtOnce) {
			err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
				// What a crash of the server takes back is found missing, and whatever commits later makes it durable.
				if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
					return err
				}
				at, err := view.Fill(ctx, tx, p.checkpoints[i], part)
				live = live || at.Next != p.checkpoints[i].Next
				return err
			})
			if err != nil {
				return false, err
			}
			fault.Point("generation.built_half")
			written(len(part))
		}
	}
	return live, nil
}

// byPartition parts offers as the partitions of checkpoints have them.
func byPartition(checkpoints []view.Checkpoint, offers []view.Newest) [][]view.Newest {
	parts := make([][]view.Newest, len(checkpoints))
	for _, n := range offers {
		p := kafka.PartitionOf(n.Key.String(), len(checkpoints))
		parts[p] = append(parts[p], n)
	}
	return parts
}

// checkpointsOf returns the checkpoints of a generation that is not retired, by partition.
func checkpointsOf(ctx context.Context, q view.Querier, id int) ([]view.Checkpoint, error) {
	if _, err := find(ctx, q, id); err != nil {
		return nil, err
	}
	checkpoints, err := view.Positions(ctx, q)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(checkpoints, func(c view.Checkpoint) bool { return c.Generation != id }), nil
}

// find returns a generation that is not retired.
func find(ctx context.Context, q view.Querier, id int) (g view.Generation, err error) {
	list, err := view.Generations(ctx, q)
	if err != nil {
		return g, err
	}
	i := slices.IndexFunc(list, func(g view.Generation) bool { return g.ID == id && g.RetiredAt == nil })
	if i < 0 {
		return g, fmt.Errorf("generation %d: %w", id, view.ErrNoGeneration)
	}
	return list[i], nil
}

// wrongAtMost is how many wrong rows are named.
const wrongAtMost = 20

// A Proof is what counting and hashing a generation has found, all in one snapshot of the database.
type Proof struct {
	view.Generation                   // as it stands: its manifest is the one that was kept, or nil
	Found           view.Manifest     // of the rows
	Want            []view.TenantPart // derived from history; without the mappings
	Wrong           []view.Wrong      // the first rows that differ
	Kept            bool              // the manifest that was kept can be derived again; true where there is none
}

// Complete reports whether the rows are those that history gives, and a manifest of it is.
func (p *Proof) Complete() bool {
	same := func(found, want view.TenantPart) bool { return found.Tenant == want.Tenant && found.Part == want.Part }
	return slices.EqualFunc(p.Found.Tenants, p.Want, same) && len(p.Wrong) == 0 && p.Kept
}

// Status says in a word what was found: complete; building, of one that has never been; damaged, of one that was.
func (p *Proof) Status() string {
	switch {
	case p.Complete():
		return "complete"
	case p.Manifest == nil && !p.Active:
		return "building"
	}
	return "damaged"
}

// Err is ErrIncomplete with what is wrong, or nil.
func (p *Proof) Err() error {
	want := total(p.Want)
	switch {
	case p.Complete():
		return nil
	case len(p.Wrong) > 0:
		w := p.Wrong[0]
		return fmt.Errorf("generation %d has %d offers, history gives %d; offer %s: %s: %w", p.ID, p.Found.Offers, want.Offers, w.Key, w.How, ErrIncomplete)
	case !p.Kept:
		return fmt.Errorf("generation %d: history does not give the digest that its manifest states: %w", p.ID, ErrIncomplete)
	}
	return fmt.Errorf("generation %d has %d offers and digest %s, history gives %d and %s: %w", p.ID, p.Found.Offers, p.Found.Digest, want.Offers, want.Digest,
		ErrIncomplete)
}

// Prove counts and hashes a generation, and derives from history what it must hold where it stands, and what it held when its
// manifest was written.
func Prove(ctx context.Context, pool *pgxpool.Pool, id int) (p Proof, err error) {
	err = postgres.Snapshot(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		p, err = prove(ctx, tx, id)
		return err
	})
	return p, err
}

func prove(ctx context.Context, tx pgx.Tx, id int) (p Proof, err error) {
	if p.Generation, err = find(ctx, tx, id); err != nil {
		return p, err
	}
	checkpoints, err := checkpointsOf(ctx, tx, id)
	if err != nil {
		return p, err
	}
	p.Want, err = derive(ctx, tx, checkpoints, func(c view.Checkpoint, offers []offer.Key) error {
		if len(p.Wrong) >= wrongAtMost {
			return nil
		}
		wrong, err := view.WrongOf(ctx, tx, c, offers)
		p.Wrong = append(p.Wrong, wrong[:min(len(wrong), wrongAtMost-len(p.Wrong))]...)
		return err
	})
	if err != nil {
		return p, err
	}
	unclaimed, err := view.Unclaimed(ctx, tx, id, wrongAtMost-len(p.Wrong))
	if err != nil {
		return p, err
	}
	p.Wrong = append(p.Wrong, unclaimed...)
	if p.Found, err = manifest(ctx, tx, id, checkpoints, p.Want); err != nil {
		return p, err
	}
	if p.Kept = p.Manifest == nil; p.Kept {
		return p, nil
	}
	then := make([]view.Checkpoint, len(p.Manifest.Partitions))
	for i, at := range p.Manifest.Partitions {
		then[i] = at.Checkpoint(id)
	}
	parts, err := derive(ctx, tx, then, func(view.Checkpoint, []offer.Key) error { return nil })
	p.Kept = p.Manifest.Part == total(parts) && slices.EqualFunc(p.Manifest.Tenants, parts,
		func(kept, derived view.TenantPart) bool {
			return kept.Tenant == derived.Tenant && kept.Part == derived.Part
		})
	return p, err
}

// manifest says what a generation holds, with the claims of the parts that were derived.
func manifest(ctx context.Context, tx pgx.Tx, id int, checkpoints []view.Checkpoint, derived []view.TenantPart) (m view.Manifest, err error) {
	m = view.Manifest{Schema: view.ManifestSchema, Generation: id, Partitions: []view.Position{}, Tenants: []view.TenantPart{}}
	newest, err := tick.At(ctx, tx, time.Now())
	if err != nil && !errors.Is(err, tick.ErrNone) {
		return m, err
	}
	m.Tick = newest.N
	for _, c := range checkpoints {
		m.Partitions = append(m.Partitions, c.Position())
	}
	mappings, err := view.Mappings(ctx, tx, id)
	if err != nil {
		return m, err
	}
	rows, err := view.Tally(ctx, tx, id)
	if err != nil {
		return m, err
	}
	parts := map[string]view.Part{}
	for _, t := range derived {
		parts[t.Tenant] = view.Part{Inputs: t.Inputs}
	}
	for tenant, r := range rows {
		parts[tenant] = view.Part{Inputs: parts[tenant].Inputs, Rows: r}
	}
	m.Tenants = byTenant(parts)
	for i, t := range m.Tenants {
		m.Tenants[i].Mappings = append(t.Mappings, mappings[t.Tenant]...)
	}
	m.Part = total(m.Tenants)
	return m, nil
}

// derive counts and hashes what a generation must hold at checkpoints, by tenant, and calls f with each part of it.
func derive(ctx context.Context, tx pgx.Tx, checkpoints []view.Checkpoint, f func(c view.Checkpoint, offers []offer.Key) error) ([]view.TenantPart, error) {
	parts := map[string]view.Part{}
	var after view.Place
	atOnce := readAtOnce * len(checkpoints)
	for more := atOnce > 0; more; { // else nothing is projected yet
		offers, next, err := view.History(ctx, tx, after, atOnce)
		if err != nil {
			return nil, err
		}
		for i, part := range byPartition(checkpoints, offers) {
			if len(part) == 0 {
				continue
			}
			if err := deriveOf(ctx, tx, checkpoints[i], view.Keys(part), parts, f); err != nil {
				return nil, err
			}
		}
		after, more = next, len(offers) == atOnce
	}
	return byTenant(parts), nil
}

// deriveOf adds what a generation must hold of offers of one partition.
func deriveOf(ctx context.Context, tx pgx.Tx, c view.Checkpoint, offers []offer.Key, parts map[string]view.Part, f func(c view.Checkpoint, offers []offer.Key) error) error {
	claimed, err := view.Claimed(ctx, tx, c, offers)
	if err != nil {
		return err
	}
	for tenant, in := range claimed {
		parts[tenant] = parts[tenant].Plus(view.Part{Inputs: in})
	}
	list, err := view.Derive(ctx, tx, c, offers)
	if err != nil {
		return err
	}
	for _, o := range list {
		p := parts[o.Key.Tenant]
		p.Add(o)
		parts[o.Key.Tenant] = p
	}
	return f(c, offers)
}

// byTenant lists parts by tenant.
func byTenant(parts map[string]view.Part) []view.TenantPart {
	list := make([]view.TenantPart, 0, len(parts))
	for _, tenant := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, view.TenantPart{Tenant: tenant, Mappings: []view.MappingVersion{}, Part: parts[tenant]})
	}
	return list
}

// total is the sum of parts.
func total(parts []view.TenantPart) (sum view.Part) {
	for _, t := range parts {
		sum = sum.Plus(t.Part)
	}
	return sum
}

// Finish proves a generation and keeps the manifest of what was found. One that is not complete is ErrIncomplete, with what is wrong.
func Finish(ctx context.Context, pool *pgxpool.Pool, id int) (p Proof, err error) {
	if p, err = Prove(ctx, pool, id); err == nil {
		err = p.Err()
	}
	if err != nil {
		return p, err
	}
	p.Manifest = &p.Found
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error { return view.SetManifest(ctx, tx, p.Found) })
	return p, err
}

// Switch proves a generation and makes it the active one. Without a reason it refuses one that is empty, or has far fewer offers
// for sale than the active one. To switch to the active one changes nothing.
func Switch(ctx context.Context, pool *pgxpool.Pool, id int, c Command) (Proof, error) {
	var active int
	err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		active, err = view.Active(ctx, tx)
		return err
	})
	if err != nil {
		return Proof{}, err
	}
	return point(ctx, pool, view.Switched, active, id, c)
}

// Rollback makes the generation active again that was so before the last switch, which has been projected on since.
func Rollback(ctx context.Context, pool *pgxpool.Pool, c Command) (Proof, error) {
	var active, id int
	err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		if active, err = view.Active(ctx, tx); err != nil {
			return err
		}
		id, err = view.Before(ctx, tx)
		if errors.Is(err, pgx.ErrNoRows) {
			err = ErrNotBefore
		}
		return err
	})
	if err != nil {
		return Proof{}, err
	}
	return point(ctx, pool, view.RolledBack, active, id, c)
}

// point moves the pointer from the generation that was active when the operator asked to another one, which it proves first.
func point(ctx context.Context, pool *pgxpool.Pool, action string, from, to int, c Command) (p Proof, err error) {
	if p, err = Finish(ctx, pool, to); err != nil {
		return p, err
	}
	var now view.Counts
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		now, err = view.Count(ctx, tx, from)
		return err
	})
	if err != nil {
		return p, err
	}
	have, want := p.Found.Offers-p.Found.Deleted, now.Offers-now.Deleted
	if c.Reason == "" && from != to && (p.Found.Offers == 0 || float64(have) < shrunken*float64(want)) {
		return p, fmt.Errorf("generation %d has %d offers for sale, the active one %d: %w", to, have, want, ErrShrunken)
	}
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
		active, err := view.Hold(ctx, tx)
		switch {
		case err != nil:
			return err
		case active == to:
			return nil
		case active != from:
			return fmt.Errorf("switch from generation %d to %d, while %d is active: %w", from, to, active, ErrMoved)
		}
		if err := view.Note(ctx, tx, action, to, c.Actor, c.Reason); err != nil {
			return err
		}
		err = view.Point(ctx, tx, to)
		fault.Point("generation.before_point")
		return err
	})
	if err != nil {
		return p, err
	}
	fault.Point("generation.after_point")
	p.Active = true
	return p, handOverSilently(ctx, pool)
}

// handOverSilently hands each partition over to the active generation that has nothing to publish by it, so that one in which nothing
// comes does not keep the generation before from being retired. The others publish what differs with their next batch.
func handOverSilently(ctx context.Context, pool *pgxpool.Pool) error {
	var checkpoints []view.Checkpoint
	err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		checkpoints, err = view.Positions(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, at := range checkpoints {
		err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
			held, err := view.Take(ctx, tx, at.Partition)
			if err != nil || held[0].Publishes {
				return err
			}
			changes, err := view.Differing(ctx, tx, held[0], publishing(held).Generation)
			if err != nil || len(changes) > 0 {
				return err
			}
			return view.HandOver(ctx, tx, held[0])
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// publishing is the one of a partition's checkpoints whose generation it publishes.
func publishing(checkpoints []view.Checkpoint) view.Checkpoint {
	return checkpoints[slices.IndexFunc(checkpoints, func(c view.Checkpoint) bool { return c.Publishes })]
}

// Compare compares two generations in one snapshot, and calls f with each offer that they show otherwise.
func Compare(ctx context.Context, pool *pgxpool.Pool, before, after int, f func(view.Difference) error) (c view.Comparison, err error) {
	err = postgres.Snapshot(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		for _, id := range []int{before, after} {
			if _, err := find(ctx, tx, id); err != nil {
				return err
			}
		}
		c, err = view.Compare(ctx, tx, before, after, f)
		return err
	})
	return c, err
}

// Export proves a generation and writes it to a folder, as package export keeps it, all as of one snapshot.
func Export(ctx context.Context, pool *pgxpool.Pool, id int, dir string) error {
	return postgres.Snapshot(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		p, err := prove(ctx, tx, id)
		if err == nil {
			err = p.Err()
		}
		if err != nil {
			return err
		}
		w, err := export.Create(dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		if err := view.Each(ctx, tx, id, w.Add); err != nil {
			return err
		}
		return w.Finish(p.Found)
	})
}

// Retire ends a generation and removes its rows, in steps: done again it goes on. One that readers see or a partition still publishes is ErrInUse.
func Retire(ctx context.Context, pool *pgxpool.Pool, id int, c Command) (removed int64, err error) {
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
		if _, err := view.Hold(ctx, tx); err != nil {
			return err
		}
		list, err := view.Generations(ctx, tx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(g view.Generation) bool { return g.ID == id })
		switch {
		case i < 0:
			return fmt.Errorf("generation %d: %w", id, view.ErrNoGeneration)
		case list[i].RetiredAt != nil:
			return nil // an earlier call did not come to its end
		}
		if err := view.Note(ctx, tx, view.Retired, id, c.Actor, c.Reason); err != nil {
			return err
		}
		err = view.Retire(ctx, tx, id)
		if errors.Is(err, view.ErrNoGeneration) {
			err = fmt.Errorf("retire generation %d: %w", id, ErrInUse)
		}
		return err
	})
	for err == nil {
		var n int64
		err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
			n, err = view.Clear(ctx, tx, id, clearAtOnce)
			return err
		})
		if removed += n; n == 0 {
			break
		}
	}
	return removed, err
}
