package view

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/tick"
)

//go:embed explain.sql
var explainSQL string

//go:embed applied.sql
var appliedSQL string

// ErrNoOffer reports an offer that the view has no row of.
var ErrNoOffer = errors.New("no such offer")

// RuleWins is the rule of the candidate that is shown.
const RuleWins = "shown"

// Rules that say why a candidate that counts is not shown: the first member of the rank in which it is below the winner.
const (
	RuleLater        = "later_than_as_of" // no claim of it was true by then
	RuleWeak         = "weak_order"       // the source gives it no version, and the winner has one
	RuleOlderVersion = "older_version"
	RuleOlderTime    = "older_observed_at"
	RuleOlderMapping = "older_mapping_version"
	RuleTie          = "tie_by_digest" // the sources do not say which is newer; the greater content digest is shown
	RuleTwin         = "tie_by_id"     // another feed says the same; the greater id is shown
)

// A Candidate is an observation that an offer could show.
type Candidate struct {
	Observation history.Observation
	Standing    decision.Standing
	Item        offer.Item // that a link says its item is; zero: none does
	Sightings   int        // how often it was restated
	Rule        string     // RuleWins, why it is not shown, or of one that does not count the word that says why
}

// Explain returns the observations of an offer of the transaction's tenant that somebody has claimed by a tick, the highest rank
// first, each with the rule by which it is shown or not. asOf leaves out what was not true by then; nil: nothing.
func Explain(ctx context.Context, tx pgx.Tx, id offer.OfferID, at tick.Tick, asOf *offer.Time) ([]Candidate, error) {
	var upTo *int64
	if asOf != nil {
		upTo = &asOf.Nanos
	}
	rows, err := tx.Query(ctx, explainSQL, uuid.UUID(id), at.Lanes, at.UpTo, upTo)
	if err != nil {
		return nil, fmt.Errorf("explain offer %s: %w", id, err)
	}
	var winner *offer.Rank
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Candidate, err error) {
		var (
			r     history.Row
			since *int64
			item  []string
		)
		if err := row.Scan(append(r.Into(), &c.Standing, &c.Rule, &item, &since, &c.Sightings)...); err != nil {
			return c, err
		}
		c.Item = offer.ItemOf(item)
		if c.Observation, err = r.Observation(); err != nil || c.Standing == decision.NotCounting {
			return c, err
		}
		rank := c.Observation.Rank
		switch {
		case asOf != nil && (since == nil || *since > asOf.Nanos):
			c.Rule = RuleLater
		case winner == nil:
			c.Rule, winner = RuleWins, &rank
		default:
			c.Rule = beaten(rank, *winner)
		}
		return c, nil
	})
	if err != nil {
		return nil, fmt.Errorf("explain offer %s: %w", id, err)
	}
	return list, nil
}

// beaten is the first member of the rank in which a candidate is below the winner.
func beaten(c, winner offer.Rank) string {
	switch {
	case c.Strong != winner.Strong:
		return RuleWeak
	case c.Order != winner.Order && c.Strong:
		return RuleOlderVersion
	case c.Order != winner.Order:
		return RuleOlderTime
	case c.Mapping != winner.Mapping:
		return RuleOlderMapping
	case c.Content != winner.Content:
		return RuleTie
	}
	return RuleTwin
}

// Applied is how far the view of an offer of the transaction's tenant has come: what Explain gives at it is why the view shows
// what it shows. It is no recorded moment: without number and time. ErrNoOffer where the view has no row of the offer.
func Applied(ctx context.Context, tx pgx.Tx, id offer.OfferID) (at tick.Tick, err error) {
	err = tx.QueryRow(ctx, appliedSQL, uuid.UUID(id)).Scan(&at.Lanes, &at.UpTo)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoOffer
	}
	if err != nil {
		return at, fmt.Errorf("find how far offer %s has come: %w", id, err)
	}
	return at, nil
}
