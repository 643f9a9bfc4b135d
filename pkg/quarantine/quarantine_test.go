package quarantine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/streams/rig"
)

func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), rig.Database(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func write(t *testing.T, pool *pgxpool.Pool, f func(ctx context.Context, tx pgx.Tx) error) {
	t.Helper()
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error { return f(t.Context(), tx) })
	if err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, pool *pgxpool.Pool) (entries []quarantine.Entry) {
	t.Helper()
	err := postgres.AsTenant(t.Context(), pool, postgres.Audit, "t1", func(tx pgx.Tx) (err error) {
		entries, err = quarantine.List(t.Context(), tx, quarantine.Filter{Limit: 100})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

var delivery = offer.DeliveryID(offer.Derive("delivery", "EXP-1"))

// at returns an entry of the delivery at an offset, recorded so many minutes after the first.
func at(offset int64, payload, reason string) *quarantine.Entry {
	return &quarantine.Entry{Tenant: "t1", Delivery: &delivery, Fault: offer.Fault{Reason: reason},
		Fingerprint: offer.Fingerprint{Canonicalization: offer.CanonicalBytes, Digest: offer.Sum([]byte(payload))},
		Offset:      offset, RecordedAt: time.Date(2026, 3, 2, 8, int(offset), 0, 0, time.UTC)}
}

func TestAPayloadThatWasRefusedAndIsAMismatchNowHasTwoEntries(t *testing.T) {
	const refusal, mismatch = offer.ReasonSchemaInvalid, offer.ReasonReplayPayloadMismatch
	for what, c := range map[string]struct {
		refused []*quarantine.Entry // before another payload is accepted
		after   []*quarantine.Entry
		want    []string // the oldest first
	}{
		"refused twice is one":                    {[]*quarantine.Entry{at(1, "P", refusal), at(2, "P", refusal)}, nil, []string{"1 schema_invalid resolved"}},
		"refused for another reason is one":       {[]*quarantine.Entry{at(1, "P", refusal), at(2, "P", offer.ReasonMappingError)}, nil, []string{"1 schema_invalid resolved"}},
		"another payload is another":              {[]*quarantine.Entry{at(1, "P", refusal), at(2, "Q", refusal)}, nil, []string{"1 schema_invalid resolved", "2 schema_invalid resolved"}},
		"refused, mended, and sent again":         {[]*quarantine.Entry{at(1, "P", refusal)}, []*quarantine.Entry{at(3, "P", mismatch)}, []string{"1 schema_invalid resolved", "3 replay_payload_mismatch open"}},
		"the third copy of a mismatch is no more": {nil, []*quarantine.Entry{at(3, "P", mismatch), at(4, "P", mismatch)}, []string{"3 replay_payload_mismatch open"}},
	} {
		t.Run(what, func(t *testing.T) {
			pool := database(t)
			for _, e := range c.refused {
				write(t, pool, func(ctx context.Context, tx pgx.Tx) error { return quarantine.Add(ctx, tx, []*quarantine.Entry{e}) })
			}
			write(t, pool, func(ctx context.Context, tx pgx.Tx) error {
				return quarantine.Resolve(ctx, tx, []string{"t1"}, []offer.DeliveryID{delivery})
			})
			for _, e := range c.after {
				write(t, pool, func(ctx context.Context, tx pgx.Tx) error { return quarantine.Add(ctx, tx, []*quarantine.Entry{e}) })
			}
			var got []string
			for _, e := range slices.Backward(list(t, pool)) {
				got = append(got, fmt.Sprint(e.Offset, " ", e.Fault.Reason, " ", e.State))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheContentOfAConflictComesBackAsItWasClaimed(t *testing.T) {
	pool := database(t)
	for i, c := range []offer.Content{
		{Item: offer.Item{MPN: "AX-440"}, Price: offer.MustDecimal("0.0037"), Currency: "EUR"},
		{Item: offer.Item{MPN: "AX-440"}, Deleted: true},
	} {
		e := at(int64(i), "P", offer.ReasonRevisionConflict)
		observation := offer.ObservationID(offer.Derive("observation", "first"))
		e.Fault.Row, e.Content, e.Observation = i+1, &c, &observation
		write(t, pool, func(ctx context.Context, tx pgx.Tx) error { return quarantine.Add(ctx, tx, []*quarantine.Entry{e}) })
		got := list(t, pool)[0]
		if got.Content == nil || got.Content.Digest() != c.Digest() || *got.Observation != observation {
			t.Errorf("got %+v, want %+v", got.Content, c)
		}
	}
}
