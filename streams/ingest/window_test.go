package ingest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// window is the data of a command about what was accepted behind one time and up to another.
func window(from, to time.Time) string {
	return fmt.Sprintf(`{"window": {"from": %q, "to": %q}}`, offer.TimeOf(from), offer.TimeOf(to))
}

func TestWhatWasAcceptedInAWindowIsUndoneAndBack(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 3, MaxRecords: 5})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	s.ApplyFeed(specOf(t, "feed: whole\naccount: ACC-2\naccepts: {topics: [deliveries], source: /whole}\nmode: snapshot\npolicy: {brake: {max_rows_lost: 100%}}\n"+weak))
	feed := func(day, changes, whole string) (at time.Time) {
		taken := "2025-03-" + day + "T08:00:00Z"
		s.Feed(s.rng, delivery("D"+day, changes, "time", taken), delivery("W"+day, whole, "source", "/whole", "time", taken))
		s.SettleOffers()
		return s.ticks()
	}
	first := feed("01", `{"sku": "A", "qty": 1}`, `[{"sku": "P", "qty": 1}, {"sku": "Q", "qty": 1}]`)
	second := feed("02", `[{"sku": "A", "qty": 2}, {"sku": "B", "qty": 2}]`, `[{"sku": "P", "qty": 2}, {"sku": "R", "qty": 2}]`)
	third := feed("03", `{"sku": "B", "qty": 3}`, `[{"sku": "P", "qty": 3}, {"sku": "R", "qty": 2}, {"sku": "S", "qty": 3}]`)
	all := []string{"A 2", "B 3", "P 3", "R 2", "S 3"}
	s.shows("before", all...)

	s.decides(streams.UndoType, window(third, second), offer.ReasonSchemaInvalid)
	s.decides(streams.UndoType, window(first, time.Now().Add(time.Hour)), offer.ReasonSchemaInvalid)
	s.decides(streams.RedoType, window(first, second), offer.ReasonSchemaInvalid)
	s.decides(streams.UndoType, window(first, second), "")
	s.shows("the second day is out, and the third stands", "A 1", "B 3", "P 3", "R 2", "S 3")
	s.verify()
	s.decides(streams.UndoType, window(first, second), offer.ReasonSchemaInvalid)
	s.decides(streams.UndoType, window(first, third), "")
	s.shows("both are out, with the deletion that the second catalogue implied", "A 1", "P 1", "Q 1")
	s.verify()
	s.decides(streams.RedoType, window(second, third), "")
	s.shows("the third day is back", "A 1", "B 3", "P 3", "R 2", "S 3")
	s.decides(streams.RedoType, window(first, second), "")
	s.shows("nothing is undone any more", all...)
	s.verify()
}

// What a catalogue lacks stays deleted when one of the deliveries is undone that it deletes as they come late.
func TestADeletionStandsByItsSnapshotWhoeverBroughtItAbout(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 3, MaxRecords: 5})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	s.ApplyFeed(specOf(t, "feed: whole\naccepts: {topics: [deliveries], source: /whole}\nmode: snapshot\npolicy: {brake: {max_rows_lost: 100%}}\n"+weak))
	s.Feed(s.rng, delivery("W", `{"sku": "P", "qty": 1}`, "source", "/whole", "time", "2025-03-05T08:00:00Z"))
	s.Settle()
	for _, day := range []string{"01", "02"} { // the first brings the deletion about
		s.Feed(s.rng, delivery("D"+day, `{"sku": "A", "qty": 1}`, "time", "2025-03-"+day+"T08:00:00Z"))
		s.Settle()
	}
	id := offer.ReplayKey{Source: offer.Source{Tenant: "t1", Connector: "acme-eu", Account: "ACC-1"}, EventSource: "/acme-eu/export", EventID: "D01"}.ID()
	s.decides(streams.UndoType, fmt.Sprintf(`{"delivery": %q}`, id), "")
	s.shows("the catalogue lacks A", "P 1")
	s.verify()
}
