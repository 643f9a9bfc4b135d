package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// dated is a feed whose rows say from when and until when they hold.
const dated = `order: observed_at
mapping: {version: 1, fields: {source_record: .sku, item: {mpn: .sku}, price: .price, currency: '"EUR"', observed_at: .ts, valid_from: .from, valid_until: .until}}
`

// What is claimed for later counts once it is time, and what held until then counts no more: by events that are told once, also
// where the worker that reads commands dies meanwhile.
func TestClaimsCountFromAndUntilTheirTime(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	first := s.Start(pipeline.Ingest)
	s.Start(pipeline.Relay)
	s.Start(pipeline.Project)
	s.ApplyFeed(specOf(t, dated))
	now := time.Now().UTC()
	in := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	const soon, allowed = 4 * time.Second, 15 * time.Minute
	var id int
	say := func(record, price, observed, more string) {
		id++
		s.Feed(s.rng, delivery(fmt.Sprint("E", id), fmt.Sprintf(`{"sku": %q, "price": %q, "ts": %q%s}`, record, price, observed, more)))
	}
	for _, record := range []string{"ahead", "begins", "ends", "never", "over"} {
		say(record, "1", in(-time.Hour), "")
	}
	say("ahead", "2", in(allowed+soon), "")
	say("ahead", "3", in(allowed+time.Hour), "")
	say("begins", "2", in(-time.Minute), fmt.Sprintf(`, "from": %q`, in(soon)))
	say("ends", "2", in(-time.Minute), fmt.Sprintf(`, "until": %q`, in(soon)))
	say("never", "2", in(-time.Minute), fmt.Sprintf(`, "from": %q, "until": %q`, in(time.Hour), in(2*time.Hour)))
	say("over", "2", in(-time.Minute), fmt.Sprintf(`, "until": %q`, in(-time.Second)))
	s.SettleOffers()
	first.Kill()
	s.Start(pipeline.Ingest)
	const want = "ahead 2, begins 2, ends 1, never 1, over 1"
	s.Until("the offers to be "+want, func(context.Context) (bool, error) { return s.prices() == want, nil })
	s.SettleOffers()
	s.wantPrices(want)
	if n := ask[int](s, "SELECT count(*) FROM audit_v1.eligibility AS d WHERE d.verdict = 'due'"); n < 1 || n > 3 {
		t.Errorf("got %d decisions that a moment has come, want one for each of 3 at most", n)
	}
	decisions := ask[int](s, "SELECT count(*) FROM audit_v1.eligibility")
	for what, c := range map[string]struct{ moment, refusal string }{
		"an earlier moment is told late": {in(-time.Hour), ""},
		"a later one has not come":       {in(time.Hour), "schema_invalid"},
	} {
		if got := s.Command("t1", streams.DueType, fmt.Appendf(nil, `{"moment": %q}`, c.moment), nil); got != c.refusal {
			t.Errorf("%s: got refusal %q, want %q", what, got, c.refusal)
		}
	}
	if n := ask[int](s, "SELECT count(*) FROM audit_v1.eligibility"); n != decisions {
		t.Errorf("got %d decisions after moments that decide nothing, want %d", n, decisions)
	}
	s.verify()
}
