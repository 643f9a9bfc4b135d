package view

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"iter"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed digest.sql
var digestSQL string

// An Offer is what the view says of one offer.
type Offer struct {
	Key     offer.Key
	None    bool       // no claim counts: there is no winner
	Rank    offer.Rank // of the winner; its content and id are in it
	Deleted bool       // true without a winner
	Flags   string     // sorted, between commas
	Item    offer.Item // that a link gives the winner; zero: none does
}

// Fold is the view of events, in whatever order they come and however often, under the decisions in force: what the rows must
// be once all of these are applied. It shares nothing with the SQL that writes the rows but offer.Rank.
func Fold(events iter.Seq[history.Event], in decision.InForce) map[offer.Key]Offer {
	type standing struct {
		history.Observation
		decision.Standing
	}
	all := map[offer.Key]map[offer.ObservationID]standing{}
	type of struct {
		offer.Key
		run uuid.UUID
	}
	has := map[of]bool{} // the runs that have the record, as their deliveries are read
	for e := range events {
		claim := &e.Claim
		if e.Sighting != nil {
			claim = e.Sighting
		}
		if all[e.Key] == nil {
			all[e.Key] = map[offer.ObservationID]standing{}
		}
		if !e.Implied() && in.Read(e.Key.Tenant, e.Feed, claim.Delivery, e.Rank.Mapping) {
			has[of{e.Key, claim.Run}] = true
		}
		best := all[e.Key][e.Observation.ID()].Standing
		if come := in.Come(e.Key.Tenant); claim.Due <= max(come, claim.RecordedAt.UnixNano()) && !e.Content.Ended(max(come, e.RecordedAt.UnixNano())) {
			delivery := claim.Delivery
			if e.Implied() { // it stands by its snapshot, whichever delivery brought it about
				delivery = offer.DeliveryID{}
			}
			best = max(best, in.Claim(e.Key.Tenant, delivery, e.Rank.Mapping, claim.Run, claim.Held))
		}
		all[e.Key][e.Observation.ID()] = standing{e.Observation, best}
	}
	snapshots := in.Snapshots()
	offers := make(map[offer.Key]Offer, len(all))
	for key, observations := range all {
		counts := func(o *standing) bool {
			return o.Standing != decision.NotCounting && !in.Out(key.Tenant, o.Feed, o.Rank.Mapping, o.ID()) &&
				(!o.Unresolved || in.Link(key, o.Content.Item) != (offer.Item{}))
		}
		var winner *standing
		for _, o := range observations {
			switch {
			case !counts(&o):
			case o.Implied() && snapshots.Replaced(decision.Account{Tenant: key.Tenant, Name: key.Account}, o.Run, o.Rank.Order), o.Implied() && has[of{key, o.Run}]:
			case winner == nil || o.Rank.Compare(winner.Rank) > 0:
				winner = &o
			}
		}
		if winner == nil {
			offers[key] = Offer{Key: key, None: true, Deleted: true}
			continue
		}
		if winner.Content.Deleted && in.Collects(key.Tenant, winner.Feed, winner.RecordedAt) {
			continue // it is not even shown as deleted any more
		}
		var flags []string
		for _, o := range observations {
			if o.Rank.CompareOrder(winner.Rank) == 0 && counts(&o) && !o.Implied() &&
				o.RevisionKey != winner.RevisionKey && o.Rank.Content != winner.Rank.Content {
				flags = []string{offer.FlagAmbiguousOrder}
			}
		}
		if winner.Standing == decision.Partial {
			flags = append(flags, offer.FlagPartialRun)
		}
		offers[key] = Offer{Key: key, Rank: winner.Rank, Deleted: winner.Content.Deleted, Flags: strings.Join(flags, ","),
			Item: in.Link(key, winner.Content.Item)}
	}
	return offers
}

// Sum is the digest of a view: the sum modulo 2^256 of the SHA-256 of each offer, as a big-endian number, so that order
// plays no part and views of parts add up. The form of an offer is one line of text:
//
//	key, strong, order, mapping version, content digest, observation id, deleted, flags
//
// separated by tabs: the key percent-encoded, truths as true or false, the digest in hex, the flags between commas; of an
// offer of which no claim counts it is the key and "none". Where a link gives the winner's item, its parts follow, each behind
// a tab.
func Sum(offers iter.Seq[Offer]) offer.Digest {
	var sum offer.Digest
	for o := range offers {
		sum = sum.Plus(o.digest())
	}
	return sum
}

// digest is the offer's part of Sum.
func (o *Offer) digest() offer.Digest {
	if o.None {
		return offer.Sum([]byte(o.Key.String() + "\tnone"))
	}
	line := fmt.Sprintf("%s\t%t\t%d\t%d\t%s\t%s\t%t\t%s", o.Key, o.Rank.Strong, o.Rank.Order, o.Rank.Mapping, o.Rank.Content,
		o.Rank.ID, o.Deleted, o.Flags)
	if o.Item != (offer.Item{}) {
		line += "\t" + strings.Join(o.Item.Fields(), "\t")
	}
	return offer.Sum([]byte(line))
}

// Digest is the Sum of the rows of a generation that q can see: under a worker's role all of them, under a reader's those
// of its tenant.
func Digest(ctx context.Context, q Querier, generation int) (offer.Digest, error) {
	var sum Rows
	tenants, err := Tally(ctx, q, generation)
	for _, r := range tenants {
		sum = sum.Plus(r)
	}
	return sum.Digest, err
}

// Tally counts and hashes the rows of a generation that q can see, by tenant.
func Tally(ctx context.Context, q Querier, generation int) (map[string]Rows, error) {
	rows, err := q.Query(ctx, digestSQL, generation)
	if err != nil {
		return nil, fmt.Errorf("digest generation %d: %w", generation, err)
	}
	defer rows.Close()
	tenants := map[string]Rows{}
	for rows.Next() {
		o, err := scanOffer(rows)
		if err != nil {
			return nil, fmt.Errorf("digest generation %d: %w", generation, err)
		}
		r := tenants[o.Key.Tenant]
		r.Add(o)
		tenants[o.Key.Tenant] = r
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("digest generation %d: %w", generation, err)
	}
	return tenants, nil
}

func scanOffer(row pgx.CollectableRow) (Offer, error) {
	var (
		o       Offer
		content []byte
		id      uuid.UUID
		item    []string
	)
	err := row.Scan(&o.Key.Tenant, &o.Key.Account, &o.Key.Record, &o.None, &o.Rank.Strong, &o.Rank.Order, &o.Rank.Mapping, &content, &id,
		&o.Deleted, &o.Flags, &item)
	o.Item = offer.ItemOf(item)
	copy(o.Rank.Content[:], content)
	o.Rank.ID = offer.ObservationID(id)
	return o, err
}
