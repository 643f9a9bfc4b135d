package project_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
)

// A claim is what a delivery says of one record.
type claim struct {
	tenant  string // "": t1
	record  string
	version int64  // 0: none, the claim is weak
	at      string // observed; "": 2025-03-01T10:00:00Z
	price   string
	deleted bool
	feed    string // "": acme-eu
	mapping int    // 0: 1
}

func (c claim) key() offer.Key {
	return offer.Key{Tenant: or(c.tenant, "t1"), Account: "ACC-1", Record: c.record}
}

// observation reads the claim from the delivery with that name.
func (c claim) observation(t testing.TB, delivery string) history.Observation {
	t.Helper()
	at, err := offer.ParseTime(or(c.at, "2025-03-01T10:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	row := offer.Row{Number: 1, Record: c.record, Version: c.version, HasVersion: c.version > 0, ObservedAt: at, Content: offer.Content{
		Item: offer.Item{MPN: "MPN-" + c.record}, Currency: "EUR", Deleted: c.deleted}}
	if c.price != "" {
		row.Content.Price = offer.MustDecimal(c.price)
	}
	o := history.New(or(c.feed, "acme-eu"), c.key(), max(c.mapping, 1), offer.DeliveryID(offer.Derive("delivery", delivery)), false, &row)
	o.RetrievedAt, o.RecordedAt = at.Time(), at.Time()
	return o
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// A feeder stands for ingest and relay: it stores claims in history under numbers of lanes, and knows their events.
type feeder struct {
	seq    map[int]int64
	known  map[offer.ObservationID]*history.Observation
	events map[int][]history.Event // by lane, in the order of their numbers
}

func newFeeder() *feeder {
	return &feeder{seq: map[int]int64{}, known: map[offer.ObservationID]*history.Observation{}, events: map[int][]history.Event{}}
}

// store gives claims the next numbers of a lane: what is known already is a sighting.
func (f *feeder) store(ctx context.Context, tx pgx.Tx, lane int, claims ...history.Observation) error {
	if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_ingest"); err != nil {
		return err
	}
	var fresh []*history.Observation
	var sightings []history.Sighting
	for _, o := range claims {
		f.seq[lane]++
		o.Lane, o.Seq = lane, f.seq[lane]
		if of := f.known[o.ID()]; of != nil {
			sightings = append(sightings, history.Sighting{Claim: o.Claim, Of: of})
			f.events[lane] = append(f.events[lane], history.Event{Observation: *of, Sighting: &o.Claim})
			continue
		}
		f.known[o.ID()] = &o
		fresh = append(fresh, &o)
		f.events[lane] = append(f.events[lane], history.Event{Observation: o})
	}
	if err := history.Append(ctx, tx, fresh); err != nil {
		return err
	}
	return history.Sight(ctx, tx, sightings)
}

// number is the event's place in the log of its lane.
func number(e history.Event) (lane int, seq int64) {
	if e.Sighting != nil {
		return e.Sighting.Lane, e.Sighting.Seq
	}
	return e.Lane, e.Seq
}

// shuffled is a log of all events as a partition may hold them: the lanes overtake one another, and the log repeats itself.
// Within a lane the order of the numbers stays, as the relay keeps it.
func (f *feeder) shuffled(rng *rand.Rand) (log []history.Event) {
	sent := map[int]int{}
	open := make([]int, 0, len(f.events))
	for l := range f.events {
		open = append(open, l)
	}
	slices.Sort(open)
	for len(open) > 0 {
		i := rng.IntN(len(open))
		l := open[i]
		if rng.IntN(3) == 0 && sent[l] > 0 {
			sent[l] -= 1 + rng.IntN(sent[l]) // the log repeats itself from there
		}
		log = append(log, f.events[l][sent[l]])
		sent[l]++
		if sent[l] == len(f.events[l]) {
			open = slices.Delete(open, i, i+1)
		}
	}
	return log
}

// record writes an event as the relay does.
func record(t testing.TB, topic string, e history.Event) *kgo.Record {
	t.Helper()
	body, err := e.Body()
	if err != nil {
		t.Fatal(err)
	}
	kind := streams.ObservationRecorded
	if e.Sighting != nil {
		kind = streams.ObservationSighted
	}
	lane, seq := number(e)
	return &kgo.Record{Topic: topic, Key: []byte(e.Key.String()), Value: body, Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")},
		{Key: "ce_id", Value: []byte(e.ID().String())},
		{Key: "ce_source", Value: []byte(streams.EventSource)},
		{Key: "ce_type", Value: []byte(kind)},
		{Key: "ce_time", Value: []byte(e.RecordedAt.UTC().Format(time.RFC3339Nano))},
		{Key: "ce_" + streams.ExtTenant, Value: []byte(e.Key.Tenant)},
		{Key: "ce_" + streams.ExtLane, Value: []byte(strconv.Itoa(lane))},
		{Key: "ce_" + streams.ExtLaneSeq, Value: []byte(strconv.FormatInt(seq, 10))},
		{Key: "content-type", Value: []byte("application/json")},
	}}
}

// seeded returns a source of chance whose seed a failing test prints.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func numberedDelivery(i int) string { return fmt.Sprintf("delivery-%d", i) }
