package ingest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// decides publishes a command with a reason and waits until the view has it. It expects the reason of a refusal, "" for none.
func (s *scene) decides(kind, data, refusal string) {
	s.t.Helper()
	got := s.Command("t1", kind, []byte(data), map[string]string{streams.ExtReason: "ticket 4411", streams.ExtActor: "ann"})
	if got != refusal {
		s.t.Errorf("%s %s: got refusal %q, want %q", kind, data, got, refusal)
	}
	s.SettleOffers()
}

// shows expects what t1 has for sale, each as record and quantity, by record: "A 5".
func (s *scene) shows(when string, want ...string) {
	s.t.Helper()
	var got []string
	for _, o := range s.Offers("t1") {
		if !o.Deleted {
			got = append(got, fmt.Sprintf("%s %s", o.Record, o.Quantity))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		s.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestS_000_13_a_suspended_feed_gives_way_to_the_runner_up(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 3, MaxRecords: 5})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.ApplyFeed(specOf(t, "feed: other\naccepts: {topics: [deliveries], source: /other}\n"))
	const wrong, right = `{"feed": "other"}`, `{"feed": "acme-eu"}`
	s.Feed(s.rng, delivery("D1", rows(3, 10)), delivery("D2", row("R-0", 2, "99"), "source", "/other"), delivery("D3", row("X", 1, "7"), "source", "/other"))
	s.SettleOffers()
	s.shows("before", "R-0 99", "R-1 1", "R-2 2", "X 7")
	before := len(s.Observations("t1"))

	s.decides(streams.FeedResumeType, wrong, offer.ReasonSchemaInvalid) // it is not suspended
	s.decides(streams.FeedSuspendType, `{"feed": "none"}`, offer.ReasonSchemaInvalid)
	s.decides(streams.FeedSuspendType, `{"feeds": "other"}`, offer.ReasonSchemaInvalid)
	s.decides(streams.FeedSuspendType, wrong, "")
	s.shows("other is suspended", "R-0 10", "R-1 1", "R-2 2")
	s.verify()
	// What comes meanwhile is accepted and kept, and counts once the feed does.
	s.Feed(s.rng, delivery("D4", row("R-1", 5, "55"), "source", "/other"), delivery("D5", row("R-2", 2, "22")))
	s.SettleOffers()
	s.shows("meanwhile", "R-0 10", "R-1 1", "R-2 22")
	if got := len(s.Observations("t1")); got != before+2 {
		t.Errorf("got %d observations, want the %d from before and 2: nothing is lost", got, before)
	}
	s.decides(streams.FeedSuspendType, wrong, offer.ReasonSchemaInvalid) // it is suspended
	s.decides(streams.FeedSuspendType, right, "")
	s.shows("both are suspended")
	s.verify()
	s.decides(streams.FeedResumeType, wrong, "")
	s.decides(streams.FeedResumeType, right, "")
	s.shows("both count again", "R-0 99", "R-1 55", "R-2 22", "X 7")
	s.verify()
}

func TestAnOperatorTakesClaimsOutOfTheCountAndBack(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 3, MaxRecords: 5})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.Feed(s.rng, delivery("D1", rows(3, 10)), delivery("D2", `[`+row("R-0", 2, "0")+`,`+row("R-1", 2, "11")+`]`))
	s.SettleOffers()
	s.Feed(s.rng, delivery("D3", row("R-1", 2, "11"))) // restates what D2 claims
	s.SettleOffers()
	s.shows("before", "R-0 0", "R-1 11", "R-2 2")

	id := offer.ReplayKey{Source: offer.Source{Tenant: "t1", Connector: "acme-eu", Account: "ACC-1"}, EventSource: "/acme-eu/export", EventID: "D2"}.ID()
	wrong := fmt.Sprintf(`{"delivery": %q}`, id)
	s.decides(streams.RedoType, wrong, offer.ReasonSchemaInvalid)
	s.decides(streams.UndoType, `{"delivery": "11111111-1111-1111-1111-111111111111"}`, offer.ReasonSchemaInvalid)
	s.decides(streams.UndoType, `{}`, offer.ReasonSchemaInvalid)
	s.decides(streams.UndoType, wrong, "")
	s.shows("what another delivery restates counts by that one", "R-0 10", "R-1 11", "R-2 2")
	s.verify()
	s.decides(streams.UndoType, wrong, offer.ReasonSchemaInvalid)

	for _, o := range s.Observations("t1") {
		if o.Record != "R-1" || o.Version != "2" {
			continue
		}
		one := fmt.Sprintf(`{"observation": {"supplier_account": "ACC-1", "source_record": "R-1", "observation_id": %q}}`, o.ObservationID)
		s.decides(streams.UndoType, one, "")
		s.shows("an observation is out", "R-0 10", "R-1 1", "R-2 2")
		s.verify()
		s.decides(streams.UndoType, fmt.Sprintf(`{"observation": {"supplier_account": "ACC-1", "source_record": "R-2", "observation_id": %q}}`, o.ObservationID), offer.ReasonSchemaInvalid)
		s.decides(streams.RedoType, one, "")
	}
	s.decides(streams.RedoType, wrong, "")
	s.shows("nothing is undone any more", "R-0 0", "R-1 11", "R-2 2")
	s.verify()
}

// A command is refused by what stands once those before it are carried out, whether or not they come in one batch.
func TestDecisionsOfOneBatchFollowOneAnother(t *testing.T) {
	for _, size := range []int{1, 500} {
		t.Run(fmt.Sprint("batches of ", size), func(t *testing.T) {
			s := newScene(t, pipeline.Options{MaxRecords: size})
			s.Start(pipeline.Relay)
			s.Start(pipeline.Project)
			first := s.Start(pipeline.Ingest)
			s.ApplyFeed(specOf(t, ""))
			s.Feed(s.rng, delivery("D1", row("A", 1, "5"), "runid", "R1", "page", "1", "pages", "1"))
			s.SettleOffers()
			ofD1 := window(time.Now().Add(-time.Hour), s.ticks())
			first.Stop()

			const (
				theFeed = `{"feed": "acme-eu"}`
				theRun  = `{"feed": "acme-eu", "run": "R1"}`
				link    = `{"supplier_account": "ACC-1", "source_record": "A", "item_was": {"mpn": "A"}, "item": {"mpn": "B"}}`
				second  = `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`
				unlink  = `{"supplier_account": "ACC-1", "source_record": "A", "item_was": {"mpn": "A"}}`
			)
			id := s.Observations("t1")[0].ObservationID
			one := fmt.Sprintf(`{"observation": {"supplier_account": "ACC-1", "source_record": "A", "observation_id": %q}}`, id)
			var (
				records []*kgo.Record
				want    []string
			)
			spec := func(settings string) string {
				body, err := specOf(t, settings).JSON()
				if err != nil {
					t.Fatal(err)
				}
				return string(body)
			}
			late, other := spec("feed: late\naccepts: {topics: [deliveries], source: /late}\n"), spec(mapped(2, ".sku", ".qty"))
			for _, c := range []struct {
				kind, data string
				refused    bool
			}{
				{streams.FeedSuspendType, `{"feed": "late"}`, true}, {streams.FeedApplyType, late, false}, {streams.FeedSuspendType, `{"feed": "late"}`, false},
				{streams.UndoType, second, true}, {streams.FeedApplyType, other, false}, {streams.UndoType, second, false}, {streams.UndoType, second, true},
				{streams.FeedApplyType, other, true}, {streams.RedoType, second, false}, {streams.RedoType, second, true},
				{streams.FeedSuspendType, theFeed, false}, {streams.FeedSuspendType, theFeed, true},
				{streams.FeedResumeType, theFeed, false}, {streams.FeedResumeType, theFeed, true},
				{streams.UndoType, one, false}, {streams.UndoType, one, true}, {streams.RedoType, one, false}, {streams.RedoType, one, true},
				{streams.UndoType, ofD1, false}, {streams.UndoType, ofD1, true}, {streams.RedoType, ofD1, false}, {streams.RedoType, ofD1, true},
				{streams.ItemLinkType, link, false}, {streams.ItemLinkType, link, true},
				{streams.ItemUnlinkType, unlink, false}, {streams.ItemUnlinkType, unlink, true}, {streams.ItemLinkType, link, false},
				{streams.RunReject, theRun, false}, {streams.RunReject, theRun, true},
				{streams.RunRelease, theRun, false}, {streams.RunRelease, theRun, true},
			} {
				n := len(records)
				records = append(records, pipeline.Event(streams.Commands, "t1", []byte(c.data), map[string]string{"id": fmt.Sprint("C", n), "source": "/test",
					"type": c.kind, streams.ExtTenant: "t1", streams.ExtReason: "ticket 4411"}))
				outcome := "accepted"
				if c.refused {
					outcome = "quarantined"
				}
				want = append(want, fmt.Sprintf("C%d %s", n, outcome))
			}
			s.Publish(records...)
			s.Start(pipeline.Ingest)
			s.SettleOffers()
			got := ask[[]string](s, `SELECT array_agg(o.event_id || ' ' || o.outcome ORDER BY o."offset") FROM audit_v1.outcome AS o WHERE o.event_id LIKE 'C%'`)
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if got := s.shown("A"); got != "5 of B, claimed A" {
				t.Errorf("got %q shown, want 5 of B, claimed A", got)
			}
			s.verify()
		})
	}
}
