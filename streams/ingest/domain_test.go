package ingest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// missing are the versions of a record that are missing by now: 8, or 8-10.
func (s *scene) missing(record string) (list []string) {
	s.t.Helper()
	err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		for _, f := range []history.Filter{{Limit: 100}, {Record: record, Limit: 100}} {
			found, err := history.Gaps(s.t.Context(), tx, f)
			if err != nil {
				return err
			}
			list = nil
			for _, g := range found {
				if g.Record == record {
					list = append(list, g.String())
				}
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func TestS_004_23_a_source_that_counts_by_one_has_gaps(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, "sequential: true\n"))
	s.ApplyFeed(specOf(t, "feed: other\naccount: ACC-2\naccepts: {topics: [deliveries], source: /other}\n"))
	for i, c := range []struct {
		version int
		result  offer.Results
		warning string
		shown   string
		missing []string
	}{
		{7, offer.Results{Saved: 1}, "", "7", nil}, // where a source begins nobody knows
		{9, offer.Results{Saved: 1}, "version_gap 8", "9", []string{"8"}},
		{13, offer.Results{Saved: 1}, "version_gap 10-12", "13", []string{"8", "10-12"}},
		{11, offer.Results{Old: 1}, "", "13", []string{"8", "10", "12"}},
		{8, offer.Results{Old: 1}, "", "13", []string{"10", "12"}},
		{14, offer.Results{Saved: 1}, "", "14", []string{"10", "12"}},
	} {
		id := fmt.Sprint("V", c.version)
		body := fmt.Sprintf(`{"sku": "A", "rev": %d, "qty": %d}`, c.version, i)
		for range 2 { // the second is a repeat, which has nothing to tell
			s.Publish(delivery(id, body), delivery("other-"+id, body, "source", "/other"))
			s.Settle()
		}
		attempt := s.attempts(id)[0]
		warning := ""
		for _, w := range attempt.Warnings {
			warning += w.Warning + " " + w.Detail
		}
		if attempt.Results != c.result || warning != c.warning {
			t.Errorf("version %d: got %+v with warning %q, want %+v with %q", c.version, attempt.Results, warning, c.result, c.warning)
		}
		if got := s.missing("A"); !slices.Equal(got, c.missing) {
			t.Errorf("after version %d: got %v missing, want %v", c.version, got, c.missing)
		}
		for _, o := range s.Offers("t1") {
			if o.Version != c.shown {
				t.Errorf("after version %d: got version %s shown, want %s", c.version, o.Version, c.shown)
			}
		}
	}
	s.verify()
}

func TestWhatIsMissingDoesNotDependOnTheOrderOfVersions(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("sequential: true\n")
	var page []string
	for v := 1; v <= 30; v++ {
		if v == 5 || v == 11 || v == 12 || v == 29 {
			continue
		}
		if body := row("A", v, "1"); v%3 == 0 {
			page = append(page, body) // several in one delivery
		} else {
			s.Feed(s.rng, delivery(fmt.Sprint("V", v), body))
		}
	}
	s.rng.Shuffle(len(page), func(i, j int) { page[i], page[j] = page[j], page[i] })
	s.Feed(s.rng, delivery("page", "["+strings.Join(page, ",")+"]"))
	s.ingested()
	if got, want := s.missing("A"), []string{"5", "11-12", "29"}; !slices.Equal(got, want) {
		t.Errorf("got %v missing, want %v", got, want)
	}
	s.verify()
}

func TestS_004_14_a_price_is_exact_from_the_payload_to_the_offer(t *testing.T) {
	const claimed = `{"sku": "A", "rev": 1, "price": 1234567.8900, "currency": "EUR"}`
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, "mapping: {version: 1, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, price: .price, currency: .currency, deleted: .del}}\n"))
	s.Feed(s.rng, delivery("claimed", claimed), delivery("deleted", `{"sku": "B", "rev": 1, "price": null, "del": true}`))
	s.SettleOffers()
	prices := map[string]string{}
	for _, o := range s.Offers("t1") {
		if prices[o.Record] = o.Price.String(); o.Deleted != (o.Record == "B") {
			t.Errorf("%s: got deleted %t", o.Record, o.Deleted)
		}
	}
	if prices["A"] != "1234567.89" || prices["B"] != "" || len(prices) != 2 {
		t.Errorf("got prices %v, want 1234567.89 for A and none for B", prices)
	}
	if got := ask[string](s, "SELECT o.price::text FROM audit_v1.observation AS o WHERE o.record = 'A'"); got != "1234567.89" {
		t.Errorf("history: got %s, want 1234567.89", got)
	}
	evidence := s.attempts("claimed")[0].Artifact
	kept, err := s.Archive.Read(t.Context(), "t1", archive.Ref{Name: evidence.Object}, evidence.Offset, evidence.Item)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept.Payload) != claimed {
		t.Errorf("evidence: got %s, want the source's own spelling", kept.Payload)
	}
	s.verify()
}

// What a supplier can say about an offer beside its price comes out of the view as it went in.
func TestEveryFieldOfAClaimReachesTheOffer(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, `mapping:
  version: 1
  program: >-
    {source_record: .sku, source_version: .rev, item, quantity, quantity_basis, price, currency, price_breaks, moq, order_multiple,
    lead_time_days, stock, valid_from, valid_until}
`))
	const said = `"item":{"mpn":"AX-440-R2","manufacturer":"Axon","revision":"R2","packaging":"reel","condition":"new","gtin":"04012345678901"},` +
		`"quantity":"-40.5","quantity_basis":{"unit":"MTR","per":"1000"},"price":"89","currency":"EUR",` +
		`"price_breaks":[{"min_qty":"10","price":"88.5"},{"min_qty":"1000","price":"0.0037"}],"moq":"10","order_multiple":"5","lead_time_days":"14",` +
		`"stock":[{"location":"HAM","quantity":"12"},{"location":"MUC","quantity":"0"}],` +
		`"valid_from":"2025-01-01T00:00:00Z","valid_until":"2125-01-01T00:00:00.000000000123Z"`
	s.Feed(s.rng, delivery("E1", `{"sku":"A","rev":1,`+said+`}`))
	s.SettleOffers()
	for what, content := range map[string]offer.Content{"history": s.Observations("t1")[0].Content, "the view": s.Offers("t1")[0].Content} {
		got, err := json.Marshal(content)
		if want := "{" + said + `,"deleted":false}`; err != nil || string(got) != want {
			t.Errorf("%s: got %s and error %v, want %s", what, got, err, want)
		}
	}
	s.verify()
}

func TestS_004_15_S_004_16_claims_without_a_version(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, weak))
	s.ApplyFeed(specOf(t, "feed: versions\naccepts: {topics: [deliveries], source: /versions}\n"))
	// Two changes of one second, as of a source whose clock has no more: both are kept, and no order of arrival decides.
	s.Feed(s.rng, delivery("four", `{"sku": "A", "qty": 4}`), delivery("six", `{"sku": "A", "qty": 6}`))
	s.SettleOffers()
	if got := s.quantities("A"); len(got) != 2 {
		t.Errorf("got quantities %v in history, want both", got)
	}
	digest := func(n string) offer.Digest {
		c := offer.Content{Item: offer.Item{MPN: "A"}, Quantity: offer.MustDecimal(n)}
		for _, o := range s.Observations("t1") {
			if o.Quantity.String() == n {
				c = o.Content
			}
		}
		return c.Digest()
	}
	want := "4"
	if d4, d6 := digest("4"), digest("6"); slices.Compare(d6[:], d4[:]) > 0 {
		want = "6"
	}
	shown := s.Offers("t1")
	if len(shown) != 1 || shown[0].Quantity.String() != want || !slices.Equal(shown[0].Flags, []string{offer.FlagAmbiguousOrder}) || shown[0].Order != "weak" {
		t.Errorf("got %+v, want quantity %s, flagged %s, of weak order", shown, want, offer.FlagAmbiguousOrder)
	}
	// A version outranks any time, also a later one that comes afterwards.
	s.Feed(s.rng, delivery("version", row("A", 1, "1"), "source", "/versions"))
	s.Settle()
	s.Feed(s.rng, delivery("later", `{"sku": "A", "qty": 9}`, "time", "2030-01-01T00:00:00Z"))
	s.SettleOffers()
	shown = s.Offers("t1")
	if len(shown) != 1 || shown[0].Quantity.String() != "1" || shown[0].Order != "strong" || len(shown[0].Flags) != 0 {
		t.Errorf("got %+v, want quantity 1 of strong order without a flag", shown)
	}
	if got := s.attempts("later"); got[len(got)-1].Outcome != offer.Duplicate || got[0].Results != (offer.Results{Old: 1}) {
		t.Errorf("the later time: got %+v, want it old", got[0].Results)
	}
	s.verify()
}
