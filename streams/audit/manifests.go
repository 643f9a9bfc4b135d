package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/view"
)

// A tally is what a view holds: the digest is view.Sum.
type tally struct {
	Offers  int64        `json:"offers"`
	Deleted int64        `json:"deleted"`
	Digest  offer.Digest `json:"digest"`
}

func (t tally) String() string {
	return fmt.Sprintf("%d offers, %d of them deleted, of digest %s", t.Offers, t.Deleted, t.Digest)
}

func (t *tally) add(o view.Offer) {
	t.Offers++
	if o.Deleted {
		t.Deleted++
	}
	t.Digest = t.Digest.Plus(view.Sum(slices.Values([]view.Offer{o})))
}

// A manifest is what a generation is said to have held, and at which positions; and what the claims give there.
type manifest struct {
	Generation int `json:"generation"`
	tally
	Partitions []struct {
		Partition int32   `json:"partition"`
		Lanes     []int   `json:"lanes"`
		UpTo      []int64 `json:"upto"`
	} `json:"partitions"`

	upto    []view.Vector // by partition
	forces  []decision.InForce
	derived tally
}

// loadManifests reads the manifests of the generations that stand (I18).
func (a *auditor) loadManifests(ctx context.Context) error {
	rows, err := a.tx.Query(ctx, statement("manifests"))
	if err != nil {
		return fmt.Errorf("read the generations: %w", err)
	}
	var (
		id   int
		text []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		a.count("I18", 1, "generations")
		if text == nil {
			return nil
		}
		m := &manifest{}
		if err := json.Unmarshal(text, m); err != nil {
			return fmt.Errorf("generation %d: %w", id, err)
		}
		a.count("I18", 1, "manifests")
		if m.Generation != id || len(m.Partitions) != len(a.checkpoints) {
			a.found(Violation{Invariant: "I18", What: "a manifest is not of its generation",
				Detail: fmt.Sprintf("that of generation %d is of generation %d and %d partitions, want %d", id, m.Generation, len(m.Partitions), len(a.checkpoints))})
			return nil
		}
		m.upto, m.forces = make([]view.Vector, len(m.Partitions)), make([]decision.InForce, len(m.Partitions))
		for i, p := range m.Partitions {
			m.upto[i] = view.Vector{}
			for j, l := range p.Lanes {
				m.upto[i][l] = p.UpTo[j]
			}
			m.forces[i] = decision.Latest(slices.Values(a.decisions), func(lane int, seq int64) bool { return seq <= m.upto[i][lane] })
		}
		a.manifests = append(a.manifests, m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the generations: %w", err)
	}
	return nil
}

// tally adds to each manifest's tally what the claims of an offer give at its positions.
func (a *auditor) tally(claims []history.Event) {
	key := claims[0].Key
	for _, m := range a.manifests {
		p := kafka.PartitionOf(key.String(), len(m.upto))
		counted := func(yield func(history.Event) bool) {
			for _, e := range claims {
				if e.Seq <= m.upto[p][e.Lane] && !yield(e) {
					return
				}
			}
		}
		if o, some := view.Fold(counted, m.forces[p])[key]; some {
			m.derived.add(o)
		}
	}
}

// compareManifests holds each manifest against what was derived.
func (a *auditor) compareManifests() {
	for _, m := range a.manifests {
		if m.derived != m.tally {
			a.found(Violation{Invariant: "I18", What: "a manifest does not follow from history",
				Detail: fmt.Sprintf("generation %d states %s, history gives %s", m.Generation, m.tally, m.derived)})
		}
	}
}

// sums holds the digest of each part of each stage against that of the stage before (I19): the payloads in the archive, the topic and
// the rows all give the same view then.
func (a *auditor) sums(context.Context) error {
	for _, p := range a.Parts() {
		a.count("I19", 1, "parts of "+p.Stage)
		if !p.OK() {
			a.found(Violation{Invariant: "I19", What: "a stage does not have the digest that the one before it gives", Where: Where{Tenant: p.Tenant},
				Detail: fmt.Sprintf("%s of feed %q and hour %q: %d of digest %s, want %d of %s", p.Stage, p.Feed, p.Hour, p.Have, p.HaveDigest, p.Want, p.WantDigest)})
		}
	}
	for _, why := range a.NotVerified() {
		a.skip(why, "I19")
	}
	return nil
}
