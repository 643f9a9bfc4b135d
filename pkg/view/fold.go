package view

import (
	"context"
	"crypto/sha256"
	_ "embed" // for the statement
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed digest.sql
var digestSQL string

// An Offer is what the view says of one offer.
type Offer struct {
	Key       offer.Key
	Rank      offer.Rank // of the winner; its content and id are in it
	Deleted   bool
	Ambiguous bool // another claim of the same order says something else
}

// Fold is the view of events, in whatever order they come and however often: what the rows must be once all of these are
// applied. It shares nothing with the SQL that writes the rows but offer.Rank.
func Fold(events iter.Seq[history.Event]) map[offer.Key]Offer {
	winners := map[offer.Key]history.Observation{}
	equals := map[offer.Key][]history.Observation{} // all of the winner's order
	for e := range events {
		o := e.Observation
		w, ok := winners[o.Key]
		if !ok || o.Rank.Compare(w.Rank) > 0 {
			winners[o.Key] = o
		}
		switch {
		case !ok || o.Rank.CompareOrder(w.Rank) > 0:
			equals[o.Key] = []history.Observation{o}
		case o.Rank.CompareOrder(w.Rank) == 0:
			equals[o.Key] = append(equals[o.Key], o)
		}
	}
	offers := make(map[offer.Key]Offer, len(winners))
	for k, w := range winners {
		f := Offer{Key: k, Rank: w.Rank, Deleted: w.Content.Deleted}
		for _, o := range equals[k] {
			if o.RevisionKey != w.RevisionKey && o.Rank.Content != w.Rank.Content {
				f.Ambiguous = true
			}
		}
		offers[k] = f
	}
	return offers
}

// Sum is the digest of a view: the sum modulo 2^256 of the SHA-256 of each offer, as a big-endian number, so that order
// plays no part and views of parts add up. The form of an offer is one line of text:
//
//	key, strong, order, mapping version, content digest, observation id, deleted, ambiguous
//
// separated by tabs: the key percent-encoded, truths as true or false, the digest in hex.
func Sum(offers iter.Seq[Offer]) offer.Digest {
	var sum [4]uint64 // most significant first
	for o := range offers {
		line := fmt.Sprintf("%s\t%t\t%d\t%d\t%s\t%s\t%t\t%t", o.Key, o.Rank.Strong, o.Rank.Order, o.Rank.Mapping, o.Rank.Content,
			o.Rank.ID, o.Deleted, o.Ambiguous)
		h := sha256.Sum256([]byte(line))
		var carry uint64
		for i := len(sum) - 1; i >= 0; i-- {
			sum[i], carry = bits.Add64(sum[i], binary.BigEndian.Uint64(h[8*i:]), carry)
		}
	}
	var d offer.Digest
	for i, n := range sum {
		binary.BigEndian.PutUint64(d[8*i:], n)
	}
	return d
}

// Digest is the Sum of the rows of a generation that q can see: under a worker's role all of them, under a reader's those
// of its tenant.
func Digest(ctx context.Context, q Querier, generation int) (offer.Digest, error) {
	rows, err := q.Query(ctx, digestSQL, generation)
	if err != nil {
		return offer.Digest{}, fmt.Errorf("digest generation %d: %w", generation, err)
	}
	defer rows.Close()
	var failed error
	sum := Sum(func(yield func(Offer) bool) {
		for rows.Next() {
			o, err := scanOffer(rows)
			if err != nil {
				failed = err
				return
			}
			if !yield(o) {
				return
			}
		}
		failed = rows.Err()
	})
	if failed != nil {
		return offer.Digest{}, fmt.Errorf("digest generation %d: %w", generation, failed)
	}
	return sum, nil
}

func scanOffer(row pgx.CollectableRow) (Offer, error) {
	var (
		o       Offer
		content []byte
		id      uuid.UUID
	)
	err := row.Scan(&o.Key.Tenant, &o.Key.Account, &o.Key.Record, &o.Rank.Strong, &o.Rank.Order, &o.Rank.Mapping, &content, &id, &o.Deleted, &o.Ambiguous)
	copy(o.Rank.Content[:], content)
	o.Rank.ID = offer.ObservationID(id)
	return o, err
}
