package project

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
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
	// ErrInUse reports a generation that readers see, or that a partition still publishes.
	ErrInUse = errors.New("the generation is in use")
)

// A Command is what an operator does with a generation: who, and why.
type Command struct{ Actor, Reason string }

// fillAtOnce is how many offers of history, for each partition, are looked at together: those of one partition are one statement,
// for which the partition waits.
const fillAtOnce = 2000

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
	done := 0
	return eachOffer(ctx, pool, id, func(c view.Checkpoint, offers []offer.Key) error {
		err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error { return view.Fill(ctx, tx, id, c.Partition, offers) })
		done += len(offers)
		progress(done)
		return err
	})
}

// eachOffer yields the offers of history in parts of one partition, each with the checkpoint of a generation there as it stood
// when the part was read.
func eachOffer(ctx context.Context, pool *pgxpool.Pool, id int, f func(c view.Checkpoint, offers []offer.Key) error) error {
	var after view.Place
	for {
		var (
			offers      []offer.Key
			next        view.Place
			checkpoints []view.Checkpoint
		)
		err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
			if checkpoints, err = checkpointsOf(ctx, tx, id); err == nil {
				offers, next, err = view.History(ctx, tx, after, fillAtOnce*len(checkpoints))
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := byPartition(checkpoints, offers, f); err != nil {
			return err
		}
		if after = next; len(offers) < fillAtOnce*len(checkpoints) {
			return nil
		}
	}
}

// byPartition calls f with those of offers that each checkpoint's partition has.
func byPartition(checkpoints []view.Checkpoint, offers []offer.Key, f func(c view.Checkpoint, offers []offer.Key) error) error {
	parts := make([][]offer.Key, len(checkpoints))
	for _, k := range offers {
		p := kafka.PartitionOf(k.String(), len(checkpoints))
		parts[p] = append(parts[p], k)
	}
	for i, c := range checkpoints {
		if len(parts[i]) == 0 {
			continue
		}
		if err := f(c, parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkpointsOf returns the checkpoints of a generation that is not retired, by partition.
func checkpointsOf(ctx context.Context, q view.Querier, id int) ([]view.Checkpoint, error) {
	list, err := view.Generations(ctx, q)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(list, func(g view.Generation) bool { return g.ID == id && g.RetiredAt == nil }) {
		return nil, fmt.Errorf("generation %d: %w", id, view.ErrNoGeneration)
	}
	checkpoints, err := view.Positions(ctx, q)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(checkpoints, func(c view.Checkpoint) bool { return c.Generation != id }), nil
}

// wrongAtMost is how many wrong rows are named.
const wrongAtMost = 20

// A Proof is what counting and hashing a generation has found, all in one snapshot of the database.
type Proof struct {
	Manifest view.Manifest // of the rows
	Want     view.Counts   // derived from history
	Digest   offer.Digest  // likewise
	Wrong    []view.Wrong  // the first rows that differ
	Kept     bool          // the manifest that was written before can be derived again; true where there is none
}

// Complete reports whether the rows are those that history gives, and a manifest of it is.
func (p *Proof) Complete() bool {
	return p.Manifest.Counts == p.Want && p.Manifest.Digest == p.Digest && len(p.Wrong) == 0 && p.Kept
}

// Err is ErrIncomplete with what is wrong, or nil.
func (p *Proof) Err() error {
	switch {
	case p.Complete():
		return nil
	case len(p.Wrong) > 0:
		w := p.Wrong[0]
		return fmt.Errorf("generation %d has %d offers, history gives %d; offer %s: %s: %w", p.Manifest.Generation, p.Manifest.Offers, p.Want.Offers, w.Key, w.How, ErrIncomplete)
	case !p.Kept:
		return fmt.Errorf("generation %d: history does not give the digest that its manifest states: %w", p.Manifest.Generation, ErrIncomplete)
	}
	return fmt.Errorf("generation %d has %d offers and digest %s, history gives %d and %s: %w", p.Manifest.Generation, p.Manifest.Offers, p.Manifest.Digest,
		p.Want.Offers, p.Digest, ErrIncomplete)
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
	checkpoints, err := checkpointsOf(ctx, tx, id)
	if err != nil {
		return p, err
	}
	list, err := view.Generations(ctx, tx)
	if err != nil {
		return p, err
	}
	kept := list[slices.IndexFunc(list, func(g view.Generation) bool { return g.ID == id })].Manifest
	p.Manifest = view.Manifest{Schema: view.ManifestSchema, Generation: id}
	for _, c := range checkpoints {
		p.Manifest.Partitions = append(p.Manifest.Partitions, c.Position())
	}
	if p.Manifest.Mappings, err = view.Mappings(ctx, tx, id); err != nil {
		return p, err
	}
	if p.Manifest.Counts, p.Manifest.Digest, err = view.CountDigest(ctx, tx, id); err != nil {
		return p, err
	}
	if p.Want, p.Digest, err = derive(ctx, tx, checkpoints, func(c view.Checkpoint, offers []offer.Key) error {
		if len(p.Wrong) >= wrongAtMost {
			return nil
		}
		wrong, err := view.WrongOf(ctx, tx, c, offers)
		p.Wrong = append(p.Wrong, wrong[:min(len(wrong), wrongAtMost-len(p.Wrong))]...)
		return err
	}); err != nil {
		return p, err
	}
	if p.Kept = kept == nil; p.Kept {
		return p, nil
	}
	then := make([]view.Checkpoint, len(kept.Partitions))
	for i, at := range kept.Partitions {
		then[i] = at.Checkpoint(id)
	}
	counts, digest, err := derive(ctx, tx, then, func(view.Checkpoint, []offer.Key) error { return nil })
	p.Kept = counts == kept.Counts && digest == kept.Digest
	return p, err
}

// derive counts and hashes what a generation must hold at checkpoints, and calls f with each part of it.
func derive(ctx context.Context, tx pgx.Tx, checkpoints []view.Checkpoint, f func(c view.Checkpoint, offers []offer.Key) error) (n view.Counts, d offer.Digest, err error) {
	d = view.Sum(func(yield func(view.Offer) bool) {
		var after view.Place
		for {
			var offers []offer.Key
			if offers, after, err = view.History(ctx, tx, after, fillAtOnce*len(checkpoints)); err != nil {
				return
			}
			err = byPartition(checkpoints, offers, func(c view.Checkpoint, part []offer.Key) error {
				list, err := view.Derive(ctx, tx, c, part)
				if err != nil {
					return err
				}
				for _, o := range list {
					n.Count(o)
					yield(o)
				}
				return f(c, part)
			})
			if err != nil || len(offers) < fillAtOnce*len(checkpoints) {
				return
			}
		}
	})
	return n, d, err
}

// Finish proves a generation and keeps the manifest of what was found. One that is not complete is ErrIncomplete, with what is wrong.
func Finish(ctx context.Context, pool *pgxpool.Pool, id int) (p Proof, err error) {
	if p, err = Prove(ctx, pool, id); err == nil {
		err = p.Err()
	}
	if err != nil {
		return p, err
	}
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error { return view.SetManifest(ctx, tx, p.Manifest) })
	return p, err
}

// Switch proves a generation and makes it the active one. Without a reason it refuses one that is empty, or has far fewer offers
// for sale than the active one.
func Switch(ctx context.Context, pool *pgxpool.Pool, id int, c Command) (view.Manifest, error) {
	return point(ctx, pool, view.Switched, id, c)
}

// Rollback makes the generation active again that was so before the last switch, which has been projected on since.
func Rollback(ctx context.Context, pool *pgxpool.Pool, c Command) (view.Manifest, error) {
	var id int
	err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		id, err = view.Before(ctx, tx)
		if errors.Is(err, pgx.ErrNoRows) {
			err = ErrNotBefore
		}
		return err
	})
	if err != nil {
		return view.Manifest{}, err
	}
	return point(ctx, pool, view.RolledBack, id, c)
}

func point(ctx context.Context, pool *pgxpool.Pool, action string, id int, c Command) (view.Manifest, error) {
	p, err := Finish(ctx, pool, id)
	if err != nil {
		return view.Manifest{}, err
	}
	return p.Manifest, postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
		active, err := view.Active(ctx, tx)
		if err != nil {
			return err
		}
		now, _, err := view.CountDigest(ctx, tx, active)
		if err != nil {
			return err
		}
		have, want := p.Manifest.Offers-p.Manifest.Deleted, now.Offers-now.Deleted
		if c.Reason == "" && (p.Manifest.Offers == 0 || float64(have) < shrunken*float64(want)) {
			return fmt.Errorf("generation %d has %d offers for sale, the active one %d: %w", id, have, want, ErrShrunken)
		}
		if err := view.Note(ctx, tx, action, id, c.Actor, c.Reason); err != nil {
			return err
		}
		return view.Point(ctx, tx, id)
	})
}

// Retire ends a generation and removes its rows, in steps: done again it goes on. One that readers see or a partition still publishes is ErrInUse.
func Retire(ctx context.Context, pool *pgxpool.Pool, id int, c Command) (removed int64, err error) {
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
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
