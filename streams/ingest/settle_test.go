package ingest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams/rig"
)

// However many rows are settled at once, the same is stored and the same is told of it: conflicts, sightings, equal ranks and
// late rows are found between chunks as they are within one.
func TestTheSizeOfAChunkDecidesNothing(t *testing.T) {
	pool, err := postgres.Open(t.Context(), rig.Database(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	rapid.Check(t, func(rt *rapid.T) {
		before, batch := drawEvents(rt, 0, "standing"), drawEvents(rt, 100, "batch")
		want := settled(rt, t, pool, before, batch, 1000)
		for _, size := range []int{1, rapid.IntRange(2, 10).Draw(rt, "rows of a chunk")} {
			if got := settled(rt, t, pool, before, batch, size); got != want {
				rt.Fatalf("in chunks of %d:\ngot\n%s\nwant\n%s", size, got, want)
			}
		}
	})
}

// drawEvents makes deliveries that contradict, restate, and outrank each other.
func drawEvents(rt *rapid.T, firstOffset int64, label string) []*event {
	feeds := []*feed.Feed{{Tenant: "t1", Name: "a", Account: "ACC", MappingVersion: 1}, {Tenant: "t1", Name: "b", Account: "ACC", MappingVersion: 2}}
	var events []*event
	for i := range rapid.IntRange(0, 6).Draw(rt, label) {
		e := &event{Place: receipt.Place{Lane: 1, Offset: firstOffset + int64(i)}, tenant: "t1", feed: rapid.SampledFrom(feeds).Draw(rt, "feed")}
		e.key = &receipt.Key{Tenant: "t1", Delivery: offer.DeliveryID(offer.Derive("delivery", fmt.Sprint(e.Offset)))}
		stated := map[string]bool{} // the mapper leaves one row of each revision
		for j := range rapid.IntRange(0, 5).Draw(rt, "rows") {
			row := offer.Row{Number: j + 1, Record: rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "record"), HasVersion: rapid.Bool().Draw(rt, "strong")}
			at := rapid.IntRange(1, 3).Draw(rt, "order")
			if row.HasVersion {
				row.Version = int64(at)
			}
			when := time.Date(2025, 3, at, 0, 0, 0, 0, time.UTC)
			row.ObservedAt = offer.Time{Nanos: when.UnixNano(), Text: when.Format(time.RFC3339)}
			row.Content.Item.MPN = rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "content")
			if revision := fmt.Sprint(row.Record, row.HasVersion, at); !stated[revision] {
				stated[revision] = true
				e.mapped.Rows = append(e.mapped.Rows, row)
			}
		}
		events = append(events, e)
	}
	return events
}

// settled is what is stored and told of a batch, which is settled on top of others and taken back.
func settled(rt *rapid.T, t *testing.T, pool *pgxpool.Pool, before, events []*event, chunkRows int) string {
	var told strings.Builder
	takenBack := errors.New("taken back")
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		told.Reset()
		held := []lane.Held{{Span: lane.Span{Lane: 1}, RecordedAt: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}}
		for _, list := range [][]*event{before, events} {
			st := newSettlement(&batch{events: list}, held, &feed.Registry{})
			st.settleEvents()
			if err := st.settleRows(t.Context(), tx, chunkRows); err != nil {
				return err
			}
			held = st.held
			for _, at := range st.attempts {
				fmt.Fprintf(&told, "delivery %d: %+v, numbers %d-%d, rejected %v, warnings %v, beyond %v\n", at.Offset, at.Results, at.FirstSeq, at.LastSeq,
					at.Rejections, at.Warnings, at.BeyondHorizon)
			}
			for _, q := range st.entries {
				fmt.Fprintf(&told, "set aside: %d, %v, %v\n", q.Offset, &q.Fault, q.Content.Item)
			}
		}
		var stored string
		err := tx.QueryRow(t.Context(), `
			SELECT coalesce(string_agg(c.line, E'\n' ORDER BY c.line), '')
			  FROM (SELECT 'observation ' || o.seq || ' ' || o.id || ' ' || o.delivery || ' ' || o.row || ' ' || o.mpn AS line FROM observation AS o
			         UNION ALL
			        SELECT 'sighting ' || s.seq || ' ' || s.observation || ' ' || s.delivery || ' ' || s.row FROM sighting AS s) AS c`).Scan(&stored)
		told.WriteString(stored)
		return errors.Join(err, takenBack)
	})
	if !errors.Is(err, takenBack) {
		rt.Fatal(err)
	}
	return told.String()
}

func TestACorrectionMakesNoRunOfOne(t *testing.T) {
	for name, test := range map[string]struct {
		mode, run string
		ref       *Replay
		want      bool // it belongs to a run
	}{
		"a delivery of a snapshot feed":           {feed.ModeSnapshot, "", nil, true},
		"its correction":                          {feed.ModeSnapshot, "", &Replay{Release: 1}, false},
		"its correction, by one row":              {feed.ModeSnapshot, "", &Replay{Release: 2, Row: 3}, false},
		"its correction, replayed":                {feed.ModeSnapshot, "", &Replay{Replay: uuid.New(), Release: 1}, false},
		"it released under its own id":            {feed.ModeSnapshot, "", &Replay{Entry: uuid.New()}, true},
		"it replayed":                             {feed.ModeSnapshot, "", &Replay{Replay: uuid.New()}, true},
		"a correction of what names its run":      {feed.ModeSnapshot, "EXP-1", &Replay{Release: 1}, true},
		"a delivery of a feed of changes":         {feed.ModeChanges, "", nil, false},
		"one of changes that names its run":       {feed.ModeChanges, "EXP-1", nil, true},
		"a correction of a feed of changes alone": {feed.ModeChanges, "", &Replay{Release: 1}, false},
	} {
		e := &event{tenant: "t1", run: test.run, ref: test.ref, feed: &feed.Feed{Name: "acme-eu", Mode: test.mode}, key: &receipt.Key{Tenant: "t1"}}
		if of := e.runOf(); (of != nil) != test.want {
			t.Errorf("%s: got run %+v, want one: %t", name, of, test.want)
		}
	}
}
