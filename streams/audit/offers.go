package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/view"
)

// A standing is what the view shows of an offer, and has published of it.
type standing struct {
	view.Offer
	partition int32
	revision  int64 // 0: never
	digest    offer.Digest
}

// offers folds the claims of every offer as far as its partition has applied them, and holds the view against it.
func (a *auditor) offers(ctx context.Context) error {
	if len(a.checkpoints) == 0 {
		a.skip("nothing was projected yet", "I12", "I13", "I17", "I18")
		return nil
	}
	rows, err := a.tx.Query(ctx, statement("offers"), a.generation)
	if err != nil {
		return fmt.Errorf("read the offers: %w", err)
	}
	defer rows.Close()
	var (
		claims []history.Event // of one offer
		shown  *standing
	)
	for rows.Next() {
		e, s, err := scanClaim(rows)
		if err != nil {
			return fmt.Errorf("read the offers: %w", err)
		}
		if len(claims) > 0 && claims[0].Key != e.Key {
			a.fold(claims, shown)
			claims = claims[:0]
		}
		claims, shown = append(claims, e), s
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the offers: %w", err)
	}
	if len(claims) > 0 {
		a.fold(claims, shown)
	}
	a.compareManifests()
	return nil
}

// scanClaim reads as much of a claim as a fold needs, and what the view shows of its offer: nil where that is nothing.
func scanClaim(row pgx.CollectableRow) (e history.Event, s *standing, err error) {
	var (
		id, stated, claimed        uuid.UUID
		run, claimRun, winner      uuid.NullUUID
		content, shownContent, sum []byte
		partition                  *int32
		strong, deleted            *bool
		flags                      *string
		ord, revision              *int64
		mapping                    *int
		due, until                 *int64
		item, linked               []string
		sighting                   bool
		c                          history.Claim
		r                          = &e.Rank
	)
	if err := row.Scan(&e.Key.Tenant, &e.Key.Account, &e.Key.Record, &r.Strong, &r.Order, &r.Mapping, &content, &id, &e.Content.Deleted, &e.RevisionKey,
		&e.Feed, &stated, &run, &e.Held, &e.RecordedAt, &until, &e.Unresolved, &item, &c.Lane, &c.Seq, &claimed, &claimRun, &c.Held, &c.RecordedAt, &due, &sighting, &partition, &strong, &ord, &mapping, &shownContent, &winner, &deleted, &flags, &linked,
		&revision, &sum); err != nil {
		return e, nil, err
	}
	r.Content, r.ID, e.MappingVersion = digest(content), offer.ObservationID(id), r.Mapping
	e.Delivery, c.Delivery = offer.DeliveryID(stated), offer.DeliveryID(claimed)
	e.Run, c.Run = run.UUID, claimRun.UUID
	e.Lane, e.Seq = c.Lane, c.Seq
	if due != nil {
		c.Due = *due
	}
	e.Content.Item = offer.ItemOf(item)
	if until != nil {
		e.Content.ValidUntil = offer.TimeOf(time.Unix(0, *until))
	}
	e.Due = c.Due // of the observation, where that is the claim
	if sighting {
		e.Sighting = &c
	}
	if partition == nil {
		return e, nil, nil
	}
	s = &standing{partition: *partition, digest: digest(sum), Offer: view.Offer{Key: e.Key, None: !winner.Valid, Deleted: *deleted, Flags: *flags, Item: offer.ItemOf(linked)}}
	if winner.Valid {
		s.Rank = offer.Rank{Strong: *strong, Order: *ord, Mapping: *mapping, Content: digest(shownContent), ID: offer.ObservationID(winner.UUID)}
	}
	if revision != nil {
		s.revision = *revision
	}
	return e, s, nil
}

// inForce are the decisions that the checkpoint of a partition has applied.
func (a *auditor) inForce(partition int32) decision.InForce {
	if in, ok := a.forces[partition]; ok {
		return in
	}
	applied := a.checkpoints[partition].Applied
	in := decision.Latest(slices.Values(a.decisions), func(lane int, seq int64) bool { return seq <= applied[lane] })
	a.forces[partition] = in
	return in
}

// fold holds what the view shows of an offer against the fold of its claims, and adds them to what the manifests must say.
func (a *auditor) fold(claims []history.Event, shown *standing) {
	a.tally(claims)
	a.count("I12", 1, "offers")
	a.count("I12", int64(len(claims)), "claims")
	key := claims[0].Key
	partition := kafka.PartitionOf(key.String(), len(a.checkpoints))
	applied := a.checkpoints[partition].Applied
	counted := func(yield func(history.Event) bool) {
		for _, e := range claims {
			if e.Seq <= applied[e.Lane] && !yield(e) {
				return
			}
		}
	}
	want, some := view.Fold(counted, a.inForce(partition))[key]
	w := Where{Tenant: key.Tenant, Offer: key.String(), Partition: &partition}
	bad := func(invariant, what, format string, args ...any) {
		a.found(Violation{Invariant: invariant, What: what, Where: w, Detail: fmt.Sprintf(format, args...)})
	}
	if some {
		a.want(groupShown(want, claims), view.Sum(slices.Values([]view.Offer{want})))
	}
	if shown != nil {
		a.have(groupShown(shown.Offer, claims), view.Sum(slices.Values([]view.Offer{shown.Offer})))
	}
	switch {
	case !some && shown == nil:
		return
	case shown == nil:
		w.Observation = want.Rank.ID.String()
		bad("I12", "an offer is not in the view", "want %s", describe(want))
		return
	case !some:
		bad("I12", "the view shows an offer of which nothing is applied, or that is collected", "it shows %s", describe(shown.Offer))
		return
	}
	w.Observation = shown.Rank.ID.String()
	if shown.partition != partition {
		bad("I12", "an offer is in another partition than its key", "partition %d", shown.partition)
	}
	if shown.Offer != want {
		bad("I12", "the view does not show the fold of the claims", "it shows %s, want %s", describe(shown.Offer), describe(want))
	}
	if want.None && shown.revision == 0 {
		return // nobody was ever shown it
	}
	if sum := stateDigest(want); shown.revision == 0 || shown.digest != sum {
		bad("I17", "what is published of an offer is not what its claims say", "revision %d has digest %s, want %s", shown.revision, shown.digest, sum)
	}
}

// groupShown is the group of what an offer shows, by the one of its claims that it is.
func groupShown(o view.Offer, claims []history.Event) group {
	i := slices.IndexFunc(claims, func(e history.Event) bool { return !o.None && e.Rank.ID == o.Rank.ID })
	if i < 0 {
		return group{stage: stageView, tenant: o.Key.Tenant}
	}
	return groupOf(stageView, o.Key.Tenant, claims[i].Feed, claims[i].RecordedAt)
}

func describe(o view.Offer) string {
	if o.None {
		return "no claim that counts"
	}
	s := fmt.Sprintf("observation %s of order %d, content %s", o.Rank.ID, o.Rank.Order, o.Rank.Content)
	if o.Deleted {
		s += ", deleted"
	}
	if o.Flags != "" {
		s += ", " + o.Flags
	}
	if o.Item != (offer.Item{}) {
		s += fmt.Sprintf(", linked to %+v", o.Item)
	}
	return s
}
