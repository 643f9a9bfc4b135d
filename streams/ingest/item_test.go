package ingest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// itemized is a feed whose rows say everything about the item.
const itemized = `mapping: {version: 1, fields: {source_record: .sku, source_version: .rev, quantity: .qty, price: .price, currency: '"EUR"', item: .item}}
`

func (s *scene) items() (items []view.ItemDocument) {
	s.t.Helper()
	s.SettleOffers()
	err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) (err error) {
		items, err = view.Items(s.t.Context(), tx, "", 100)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return items
}

// shown is what the view says of a record: its quantity, its item, and what its source calls it where that is another.
func (s *scene) shown(record string) string {
	s.t.Helper()
	s.SettleOffers()
	for _, o := range s.Offers("t1") {
		if o.Record != record {
			continue
		}
		text := o.Quantity.String() + " of " + name(o.Item)
		if o.ItemClaimed != nil {
			text += ", claimed " + name(*o.ItemClaimed)
		}
		return text
	}
	return "nothing"
}

func name(i offer.Item) string {
	return strings.Join(slices.DeleteFunc(i.Fields(), func(part string) bool { return part == "" }), " ")
}

// evidence sums up what was claimed and kept, byte by byte.
func (s *scene) evidence() string {
	s.t.Helper()
	return ask[string](s, `SELECT concat((SELECT string_agg(o::text, ' ' ORDER BY o.lane, o.seq) FROM audit_v1.observation AS o WHERE o.seq <= 2),
	                                     (SELECT string_agg(encode(a.sha256, 'hex'), ' ' ORDER BY a.name) FROM audit_v1.artifact AS a
	                                       WHERE a.length > 0 AND a.topic_id = (SELECT p.topic_id FROM audit_v1.position AS p WHERE p.topic = 'deliveries' LIMIT 1) AND a."offset" < 2))`)
}

func TestS_000_39_S_000_53_an_item_that_is_not_resolved_waits_for_a_link(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.startAll("policy: {item: resolved}\n" + itemized)
	say := func(rev, qty int, item string) {
		s.Feed(s.rng, delivery(fmt.Sprint("E", rev), fmt.Sprintf(`{"sku": "EXP-1", "rev": %d, "qty": %d, "item": %s}`, rev, qty, item)))
		s.Settle()
	}
	want := func(what, want string) {
		t.Helper()
		if got := s.shown("EXP-1"); got != want {
			t.Errorf("%s: got %q shown, want %q", what, got, want)
		}
	}
	decide := func(kind, data, reason, refusal string) {
		t.Helper()
		if got := s.Command("t1", kind, []byte(data), map[string]string{streams.ExtActor: "ada", streams.ExtReason: reason}); got != refusal {
			t.Errorf("%s with %s: got refusal %q, want %q", kind, data, got, refusal)
		}
	}
	say(1, 6, `{"mpn": "AX-440-R2", "manufacturer": "Axon"}`)
	say(2, 4, `{"mpn": "AX-440"}`)
	want("the newest claim names no item for sure", "6 of AX-440-R2 Axon")
	var reason string
	err := postgres.AsTenant(t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT c.reason FROM observation AS o
		                                  CROSS JOIN LATERAL candidates(o.tenant, o.offer, ARRAY[o.lane], ARRAY[o.seq], NULL) AS c
		                                  WHERE o.ord = 2 AND c.observation = o.id`).Scan(&reason)
	})
	if err != nil {
		t.Fatal(err)
	}
	if reason != "unresolved" {
		t.Errorf("got reason %q, want unresolved", reason)
	}
	before := s.evidence()
	const link = `{"supplier_account": "ACC-1", "source_record": "EXP-1", "item_was": {"mpn": "AX-440"}, "item": {"mpn": "AX-440-R2", "manufacturer": "Axon"}}`
	const unlink = `{"supplier_account": "ACC-1", "source_record": "EXP-1", "item_was": {"mpn": "AX-440"}}`
	decide(streams.ItemLinkType, link, "", offer.ReasonNotACloudEvent)
	decide(streams.ItemUnlinkType, unlink, "there is none", offer.ReasonSchemaInvalid)
	decide(streams.ItemLinkType, strings.Replace(link, `"AX-440"`, `"AX-441"`, 1), "nobody says that", offer.ReasonSchemaInvalid)
	decide(streams.ItemLinkType, link, "confirmed by the supplier", "")
	want("it was linked", "4 of AX-440-R2 Axon, claimed AX-440")
	decide(streams.ItemLinkType, link, "once more", offer.ReasonSchemaInvalid)
	if got := s.evidence(); got != before {
		t.Errorf("what was claimed and kept: got %s, want %s", got, before)
	}
	decision := ask[string](s, `SELECT concat_ws(' ', d.item_was[1], d.item[1], d.item[2], d.actor, d.reason) FROM audit_v1.eligibility AS d WHERE d.kind = 'item'`)
	if decision != "AX-440 AX-440-R2 Axon ada confirmed by the supplier" {
		t.Errorf("got decision %q", decision)
	}
	say(3, 3, `{"mpn": "AX-440"}`)
	want("a later claim says the same", "3 of AX-440-R2 Axon, claimed AX-440")
	say(4, 2, `{"mpn": "AX-440-R3"}`)
	want("a later one says another", "3 of AX-440-R2 Axon, claimed AX-440")
	s.verify()
	decide(streams.ItemUnlinkType, unlink, "it is R3", "")
	want("it was unlinked", "6 of AX-440-R2 Axon")
	decide(streams.ItemLinkType, strings.Replace(link, "AX-440-R2", "AX-440-R3", 1), "it is R3", "")
	want("it was linked to another", "3 of AX-440-R3 Axon, claimed AX-440")
	s.verify()
}

func TestS_000_35_S_000_37_an_item_compares_offers_and_merges_nothing(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.startAll(itemized)
	s.ApplyFeed(specOf(t, "feed: other\naccount: ACC-2\naccepts: {topics: [deliveries], source: /other}\n"+itemized))
	row := func(sku, packaging, price string) string {
		return fmt.Sprintf(`{"sku": %q, "rev": 1, "qty": 6, "price": %q, "item": {"mpn": "AX-440-R2", "packaging": %q, "condition": "new"}}`, sku, price, packaging)
	}
	s.Feed(s.rng, delivery("E1", "["+row("A", "reel", "820")+","+row("B", "cut", "840")+"]"), delivery("E2", row("A", "reel", "815"), "source", "/other"))
	reel := offer.Item{MPN: "AX-440-R2", Packaging: "reel", Condition: "new"}
	items := s.items()
	want := []view.ItemDocument{{Item: offer.Item{MPN: "AX-440-R2", Packaging: "cut", Condition: "new"}, Offers: 1, Accounts: 1}, {Item: reel, Offers: 2, Accounts: 2}}
	if !slices.Equal(items, want) {
		t.Errorf("got items %+v, want %+v", items, want)
	}
	text, err := json.Marshal(items)
	if err != nil || strings.Contains(string(text), "price") || strings.Contains(string(text), "quantity") {
		t.Errorf("an item: got %s and error %v, want neither a price nor a quantity", text, err)
	}
	var offers []view.Document
	err = postgres.AsTenant(t.Context(), s.Pool, postgres.Read, "t1", func(tx pgx.Tx) (err error) {
		offers, err = view.Offers(t.Context(), tx, view.Filter{Of: &reel})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range offers {
		got = append(got, o.Account+" "+o.Price.String()+" "+o.Verification)
	}
	if want := []string{"ACC-1 820 unverified", "ACC-2 815 unverified"}; !slices.Equal(got, want) {
		t.Errorf("got offers %q, want %q", got, want)
	}
	s.verify()
}
