package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// What a run would do beyond the limits of its feed waits for a person; what he releases is held no more.
func TestABrakeHoldsWhatWouldChangeTooMuch(t *testing.T) {
	const rows = `mapping: {version: 1, fields: {source_record: .sku, item: {mpn: .sku}, price: .price, currency: .cur, quantity_basis: {per: .per}, deleted: .del}}` + "\norder: observed_at\n"
	const at8, at9 = "2026-03-02T08:00:00Z", "2026-03-02T09:00:00Z"
	row := func(sku, price, more string) string {
		return fmt.Sprintf(`{"sku": %q, "price": %q, "cur": "EUR"%s}`, sku, price, more)
	}
	before := []string{row("A", "10", ""), row("B", "20", ""), row("C", "30", ""), row("D", "40", "")}
	for what, c := range map[string]struct {
		settings, time string
		rows           []string
		held, shown    string // why, where it is; and what is shown afterwards, or once it is released
	}{
		"a catalogue lacks more than may go": {"mode: snapshot\npolicy: {brake: {max_rows_lost: 100%, max_deleted: 25%}}", at9, before[:2],
			"max_deleted 25%: 2 of 4 records that are for sale would be gone", "A 10, B 20"},
		"a catalogue lacks as much as may go": {"mode: snapshot\npolicy: {brake: {max_rows_lost: 100%, max_deleted: 50%}}", at9, before[:2], "", "A 10, B 20"},
		"an older catalogue takes nothing":    {"mode: snapshot\npolicy: {brake: {max_rows_lost: 100%, max_price_move: 5%}}", "2026-03-02T07:00:00Z", []string{row("A", "99", "")}, "", "A 10, B 20, C 30, D 40"},
		"a run deletes more than may go": {"policy: {brake: {max_deleted: 50%}}", at9, []string{row("A", "11", ""), row("B", "20", `, "del": true`), row("C", "30", `, "del": true`)},
			"max_deleted 50%: 2 of 3 records that are for sale would be gone", "A 11, D 40"},
		"a price moves too far": {"policy: {brake: {max_price_move: 50%}}", at9, []string{row("A", "14", ""), row("B", "9", "")},
			"max_price_move 50%: 1 prices would move by more", "A 14, B 9, C 30, D 40"},
		"prices move as far as they may":                {"policy: {brake: {max_price_move: 50%}}", at9, []string{row("A", "15", ""), row("B", "10", "")}, "", "A 15, B 10, C 30, D 40"},
		"a price for another quantity":                  {"policy: {brake: {max_price_move: 1%}}", at9, []string{row("A", "1000", `, "per": 100`)}, "", "A 1000, B 20, C 30, D 40"},
		"the same price for a hundred":                  {"policy: {brake: {max_price_move: 50%}}", at9, []string{row("A", "10", `, "per": 100`)}, "max_price_move 50%: 1 prices would move by more", "A 10, B 20, C 30, D 40"},
		"a price in another currency stands for itself": {"policy: {brake: {max_price_move: 1%}}", at9, []string{strings.Replace(row("A", "7", ""), "EUR", "USD", 1)}, "", "A 7, B 20, C 30, D 40"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t, pipeline.Options{})
			s.startAll(rows + c.settings + "\n")
			s.Feed(s.rng, delivery("first", "["+strings.Join(before, ",")+"]", "time", at8, "runid", "R1", "page", "1", "pages", "1"))
			s.SettleOffers()
			was := s.prices()
			s.Feed(s.rng, delivery("second", "["+strings.Join(c.rows, ",")+"]", "time", c.time, "runid", "R2", "page", "1", "pages", "1"))
			s.SettleOffers()
			held := ask[string](s, "SELECT coalesce(string_agg(d.reason, ' '), '') FROM audit_v1.eligibility AS d WHERE d.verdict = 'braked'")
			if held != c.held {
				t.Errorf("got held for %q, want %q", held, c.held)
			}
			if c.held != "" {
				s.wantPrices(was)
				if refused := s.Command("t1", streams.RunRelease, []byte(`{"feed": "acme-eu", "run": "R2"}`), map[string]string{streams.ExtReason: "checked"}); refused != "" {
					t.Errorf("got refusal %s of the release, want none", refused)
				}
			}
			s.SettleOffers()
			var list []string
			for _, o := range s.Offers("t1") {
				if !o.Deleted {
					list = append(list, o.Record+" "+o.Price.String())
				}
			}
			if got := strings.Join(list, ", "); got != c.shown {
				t.Errorf("got %q for sale, want %q", got, c.shown)
			}
			s.verify()
		})
	}
}
