package project_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
)

// A word is what a lane says under one of its numbers: a claim, or a decision.
type word struct {
	event   *history.Event
	decided *decision.Decision
}

// speaker stores words of lanes: claims as the feeder does, and decisions between them.
type speaker struct {
	*feeder
	words map[int][]word // by lane, in the order of their numbers
}

func (s *speaker) claim(ctx context.Context, tx pgx.Tx, lane int, o history.Observation) error {
	if err := s.store(ctx, tx, lane, o); err != nil {
		return err
	}
	e := s.events[lane][len(s.events[lane])-1]
	s.words[lane] = append(s.words[lane], word{event: &e})
	return nil
}

func (s *speaker) decide(ctx context.Context, tx pgx.Tx, lane int, d decision.Decision) error {
	if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_ingest"); err != nil {
		return err
	}
	s.seq[lane]++
	d.Lane, d.Seq = lane, s.seq[lane]
	if err := decision.Record(ctx, tx, []*decision.Decision{&d}); err != nil {
		return err
	}
	s.words[lane] = append(s.words[lane], word{decided: &d})
	return nil
}

// hear projects words of a lane as one batch of a partition that has every offer, as the stage does. known are the offers that were
// heard of.
func hear(ctx context.Context, tx pgx.Tx, c *view.Checkpoint, known map[offer.Key]bool, words []word) error {
	var (
		touched []offer.Key
		decided []decision.Subject
	)
	for _, w := range words {
		switch {
		case w.event != nil && c.Take(number(*w.event)):
			touched, known[w.event.Key] = append(touched, w.event.Key), true
		case w.decided != nil && c.Take(w.decided.Lane, w.decided.Seq):
			decided = append(decided, w.decided.Subject)
		}
	}
	if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_project"); err != nil {
		return err
	}
	if _, err := view.Apply(ctx, tx, *c, touched, false); err != nil {
		return err
	}
	for _, subjects := range decision.Groups(decided) {
		offers := view.Concerned(ctx, tx, *c, subjects)
		if kind := subjects[0].Kind; kind == decision.Delivery || kind == decision.Reading { // here no receipt says which numbers its claims have
			offers = func(yield func([]offer.Key, error) bool) {
				yield([]offer.Key{claim{record: "A"}.key(), claim{record: "B"}.key()}, nil)
			}
		}
		for keys, err := range offers {
			if err != nil {
				return err
			}
			shown := slices.DeleteFunc(keys, func(k offer.Key) bool { return !known[k] })
			if _, err := view.Apply(ctx, tx, *c, shown, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// momentLane is the lane of commands, which tell what has come.
const momentLane = 4

// Whatever was claimed and decided, in whatever order the lanes are heard, the rows are the fold of what was heard: after
// every batch, not only at the end.
func TestTheViewIsTheFoldOfClaimsAndDecisions(t *testing.T) {
	pool := database(t)
	ctx := t.Context()
	runs := []uuid.UUID{uuid.Nil, offer.Derive("run", "1"), offer.Derive("run", "2")}
	rapid.Check(t, func(rt *rapid.T) {
		err := scratch(ctx, pool, func(tx pgx.Tx) error {
			s := &speaker{feeder: newFeeder(), words: map[int][]word{}}
			var claimed []history.Observation
			var moment int64 // the last that came: told in a lane of their own, in their order
			simple := rapid.Bool().Draw(rt, "simple")
			for i := range rapid.IntRange(1, 20).Draw(rt, "words") {
				lane := rapid.IntRange(1, 3).Draw(rt, "lane")
				record := rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "record")
				run := rapid.SampledFrom(runs).Draw(rt, "run")
				switch what := rapid.IntRange(0, 13).Draw(rt, "what"); {
				case what == 0 && run != uuid.Nil:
					d := decision.Decision{Subject: decision.Subject{Tenant: "t1", Kind: decision.Run, ID: run}, Verdict: decision.Released,
						Standing: rapid.SampledFrom([]decision.Standing{0, 1, 2}).Draw(rt, "standing")}
					if d.Standing == decision.Counting && rapid.Bool().Draw(rt, "snapshot") {
						d.Feed, d.Account, d.AsOf = "acme-eu", "ACC-1", new(int64(rapid.IntRange(1, 3).Draw(rt, "as of")))
						// As whoever completes it, it has claims of all that it makes other than it was.
						for _, record := range []string{"A", "B"} {
							o := history.Imply(claim{record: record}.key(), d.Feed, run, offer.TimeOf(time.Unix(0, *d.AsOf)), offer.DeliveryID{})
							o.RetrievedAt, o.RecordedAt = o.ObservedAt.Time(), o.ObservedAt.Time()
							if err := s.claim(ctx, tx, lane, o); err != nil {
								return err
							}
						}
					}
					if err := s.decide(ctx, tx, lane, d); err != nil {
						return err
					}
				case what == 1 && len(claimed) > 0:
					o := rapid.SampledFrom(claimed).Draw(rt, "observation")
					err := s.decide(ctx, tx, lane, decision.Decision{Subject: decision.Subject{Tenant: "t1", Kind: decision.Observation, ID: uuid.UUID(o.ID())},
						Offer: o.Offer, Verdict: decision.Superseded, Standing: rapid.SampledFrom([]decision.Standing{0, 2}).Draw(rt, "standing")})
					if err != nil {
						return err
					}
				case what == 3:
					feed := rapid.SampledFrom([]string{"acme-eu", "other"}).Draw(rt, "feed")
					err := s.decide(ctx, tx, lane, decision.Decision{Subject: decision.OfFeed("t1", feed), Feed: feed, Account: "ACC-1",
						Verdict: decision.Suspended, Standing: rapid.SampledFrom([]decision.Standing{0, 2}).Draw(rt, "standing")})
					if err != nil {
						return err
					}
				case what == 4 && len(claimed) > 0:
					o := rapid.SampledFrom(claimed).Draw(rt, "observation")
					err := s.decide(ctx, tx, lane, decision.Decision{Subject: decision.Subject{Tenant: "t1", Kind: decision.Delivery, ID: uuid.UUID(o.Delivery)},
						Verdict: decision.Retracted, Standing: rapid.SampledFrom([]decision.Standing{0, 2}).Draw(rt, "standing")})
					if err != nil {
						return err
					}
				case what == 7 && len(claimed) > 0:
					o := rapid.SampledFrom(claimed).Draw(rt, "observation")
					version := rapid.IntRange(1, 3).Draw(rt, "mapping version")
					err := s.decide(ctx, tx, lane, decision.Decision{Subject: decision.OfReading("t1", o.Delivery, version), Delivery: o.Delivery, Mapping: version,
						Feed: o.Feed, Account: "ACC-1", Verdict: decision.Reread, Standing: decision.Counting})
					if err != nil {
						return err
					}
				case what == 8:
					feed, version := rapid.SampledFrom([]string{"acme-eu", "other"}).Draw(rt, "feed"), rapid.IntRange(1, 3).Draw(rt, "mapping version")
					err := s.decide(ctx, tx, lane, decision.Decision{Subject: decision.OfMapping("t1", feed, version), Mapping: version, Feed: feed, Account: "ACC-1",
						Verdict: decision.Retracted, Standing: rapid.SampledFrom([]decision.Standing{0, 2}).Draw(rt, "standing")})
					if err != nil {
						return err
					}
				case what == 10:
					of, was := claim{record: record}.key(), offer.Item{MPN: "MPN-" + record}
					err := s.decide(ctx, tx, lane, decision.Decision{Subject: decision.OfItem(of, was), Offer: of.ID(), ItemWas: was, Verdict: decision.Linked,
						Item: offer.Item{MPN: "X", GTIN: rapid.SampledFrom([]string{"", "1"}).Draw(rt, "item")}, Standing: rapid.SampledFrom([]decision.Standing{0, 2}).Draw(rt, "standing")})
					if err != nil {
						return err
					}
				case what == 9 && moment < 5000:
					moment = rapid.Int64Range(moment/1000+1, 5).Draw(rt, "moment") * 1000
					err := s.decide(ctx, tx, momentLane, decision.Decision{Subject: decision.OfMoment("t1", moment), Verdict: decision.Due,
						Standing: decision.Counting, Moment: moment})
					if err != nil {
						return err
					}
				default:
					o := claim{record: record, mapping: rapid.IntRange(1, 3).Draw(rt, "mapping version"), feed: rapid.SampledFrom([]string{"acme-eu", "other"}).Draw(rt, "feed"), at: fmt.Sprintf("1970-01-01T00:00:00.00000000%dZ", rapid.IntRange(1, 3).Draw(rt, "at")),
						version: int64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(rt, "version")), price: rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "price"),
						deleted: rapid.Bool().Draw(rt, "deleted")}.observation(t, numberedDelivery(rapid.IntRange(0, i).Draw(rt, "delivery")))
					if what == 2 && run != uuid.Nil && !o.Rank.Strong {
						o = history.Imply(o.Key, o.Feed, run, o.ObservedAt, o.Delivery)
						o.RetrievedAt, o.RecordedAt = o.ObservedAt.Time(), o.ObservedAt.Time()
					} else {
						o.Run, o.Held = run, run != uuid.Nil && rapid.Bool().Draw(rt, "held")
					}
					if simple { // no time, no link and nothing but decisions say how it counts
						if known := s.known[o.ID()]; known != nil {
							o.Content, o.Rank = known.Content, known.Rank
						}
						if err := s.claim(ctx, tx, lane, o); err != nil {
							return err
						}
						claimed = append(claimed, o)
						continue
					}
					// Due at 1 to 5 microseconds, and valid until then; what is claimed late is recorded later.
					o.Unresolved = !o.Implied() && rapid.Bool().Draw(rt, "unresolved")
					o.Due, o.RecordedAt = rapid.Int64Range(0, 5).Draw(rt, "due")*1000, time.UnixMicro(rapid.Int64Range(0, 4).Draw(rt, "recorded"))
					if until := rapid.Int64Range(0, 5).Draw(rt, "until"); until > 0 && !o.Implied() {
						o.Content.ValidUntil = offer.TimeOf(time.UnixMicro(until))
						o.Rank.Content = o.Content.Digest()
					}
					if known := s.known[o.ID()]; known != nil {
						o.Content, o.Rank = known.Content, known.Rank
					}
					if err := s.claim(ctx, tx, lane, o); err != nil {
						return err
					}
					claimed = append(claimed, o)
				}
			}
			c := start()
			var other *building
			heard, known := map[int]int{}, map[offer.Key]bool{}
			for {
				if other == nil && rapid.IntRange(0, 2).Draw(rt, "build") == 0 {
					var err error
					if other, err = build(ctx, tx, c); err != nil {
						return err
					}
				}
				var open []int
				for _, lane := range slices.Sorted(maps.Keys(s.words)) {
					if heard[lane] < len(s.words[lane]) {
						open = append(open, lane)
					}
				}
				if len(open) == 0 {
					if err := other.filled(ctx, tx); err != nil {
						return err
					}
					return documented(ctx, tx)
				}
				lane := rapid.SampledFrom(open).Draw(rt, "heard")
				upTo := rapid.IntRange(heard[lane]+1, len(s.words[lane])).Draw(rt, "up to")
				// What was heard comes again at times: it changes nothing.
				from := rapid.IntRange(0, heard[lane]).Draw(rt, "from")
				if err := hear(ctx, tx, &c, known, s.words[lane][from:upTo]); err != nil {
					return err
				}
				if other != nil {
					if err := hear(ctx, tx, &other.Checkpoint, other.known, s.words[lane][from:upTo]); err != nil {
						return err
					}
				}
				heard[lane] = upTo
				got, err := view.Digest(ctx, tx, 1)
				if err != nil {
					return err
				}
				folded := view.Fold(s.claimsUpTo(heard), s.decisionsUpTo(heard))
				if want := view.Sum(maps.Values(folded)); got != want {
					return fmt.Errorf("heard %v: got %s, want %s", heard, got, want)
				}
				if err := explained(ctx, tx, c, folded, s.decisionsUpTo(heard)); err != nil {
					return fmt.Errorf("heard %v: %w", heard, err)
				}
			}
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// A building is a generation beside the first one, of which history was read when it was made: what is projected from then on goes
// into both.
type building struct {
	view.Checkpoint
	read   view.Checkpoint
	offers []view.Newest
	known  map[offer.Key]bool
}

// build makes a generation where a checkpoint stands, and reads history for it.
func build(ctx context.Context, tx pgx.Tx, c view.Checkpoint) (b *building, err error) {
	if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_project"); err != nil {
		return nil, err
	}
	if err := view.Start(ctx, tx, []view.Checkpoint{c}); err != nil {
		return nil, err
	}
	if err := view.Advance(ctx, tx, c); err != nil {
		return nil, err
	}
	b = &building{Checkpoint: c, read: c, known: map[offer.Key]bool{}}
	if b.Generation, err = view.Make(ctx, tx); err != nil {
		return nil, err
	}
	b.Applied, b.read = maps.Clone(c.Applied), b.Checkpoint
	b.read.Applied = maps.Clone(c.Applied)
	b.offers, _, err = view.History(ctx, tx, view.Place{}, 10)
	return b, err
}

// filled writes what was read, and holds the generation against the first one.
func (b *building) filled(ctx context.Context, tx pgx.Tx) error {
	if b == nil {
		return nil
	}
	if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_project"); err != nil {
		return err
	}
	if err := view.Advance(ctx, tx, b.Checkpoint); err != nil {
		return err
	}
	if _, err := view.Fill(ctx, tx, b.read, b.offers); err != nil {
		return err
	}
	got, err := view.Digest(ctx, tx, b.Generation)
	if err != nil {
		return err
	}
	if want, err := view.Digest(ctx, tx, 1); err != nil || got != want {
		return fmt.Errorf("a generation that was built at %v: got %s and error %w, want %s", b.read.Applied, got, err, want)
	}
	return nil
}

// documented holds the documents of all rows against the rows: from their text alone their digest is derived.
func documented(ctx context.Context, tx pgx.Tx) error {
	var sum view.Rows
	err := view.Each(ctx, tx, 1, func(c *view.Change) error {
		body, err := c.Body()
		if err != nil {
			return err
		}
		var d view.Document
		if err := json.Unmarshal(body, &d); err != nil {
			return err
		}
		o, err := d.Offer()
		sum.Add(o)
		return err
	})
	if err != nil {
		return err
	}
	want, err := view.Digest(ctx, tx, 1)
	if err == nil && sum.Digest != want {
		err = fmt.Errorf("the documents of the rows: got %s, want %s", sum.Digest, want)
	}
	return err
}

// explained holds what reads of the past and explanations say at a checkpoint against the folded offers.
func explained(ctx context.Context, tx pgx.Tx, c view.Checkpoint, folded map[offer.Key]view.Offer, in decision.InForce) error {
	if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_audit; SET LOCAL offerlog.tenant = 't1'"); err != nil {
		return err
	}
	var at tick.Tick
	for lane, seq := range c.Applied {
		at.Lanes, at.UpTo = append(at.Lanes, lane), append(at.UpTo, seq)
	}
	known, err := view.Known(ctx, tx, view.Filter{IncludeDeleted: true}, at, nil)
	if err != nil {
		return err
	}
	shown := map[string]string{}
	for _, o := range known {
		shown[o.Record] = o.ObservationID
	}
	for key, want := range folded {
		if got := shown[key.Record]; (got == "") != want.None || got != "" && got != want.Rank.ID.String() {
			return fmt.Errorf("record %s is known as %q, want %s", key.Record, got, want.Rank.ID)
		}
		candidates, err := view.Explain(ctx, tx, key.ID(), at, nil)
		if err != nil {
			return err
		}
		for _, x := range candidates {
			o := &x.Observation
			wins := !want.None && o.ID() == want.Rank.ID
			if (x.Rule == view.RuleWins) != wins {
				return fmt.Errorf("observation %s has rule %s, want the winner to be %s", o.ID(), x.Rule, want.Rank.ID)
			}
			if x.Standing != decision.NotCounting && !wins && o.Rank.Compare(want.Rank) > 0 {
				return fmt.Errorf("observation %s ranks above the winner, and its rule is %s", o.ID(), x.Rule)
			}
			if out := in.Out("t1", o.Feed, o.Rank.Mapping, o.ID()); out && (x.Standing != decision.NotCounting || x.Rule == "") {
				return fmt.Errorf("observation %s is out, and its rule is %q", o.ID(), x.Rule)
			}
		}
	}
	return nil
}

// What ranks equal in all that a source says is told as what it is: another content, or the same one once more.
func TestATieSaysWhatDecidesIt(t *testing.T) {
	in := install(t, fake(t), 1)
	in.start()
	var claims []history.Observation
	for i, c := range []claim{{record: "A", version: 1, price: "1"}, {record: "A", version: 1, price: "1", feed: "other"},
		{record: "B", version: 1, price: "1"}, {record: "B", version: 1, price: "2", feed: "other"}} {
		claims = append(claims, c.observation(t, numberedDelivery(i)))
	}
	in.say(10, claims...)
	in.settle()
	for record, want := range map[string]string{"A": view.RuleTwin, "B": view.RuleTie} {
		err := postgres.AsTenant(t.Context(), in.pool, postgres.Audit, "t1", func(tx pgx.Tx) error {
			id := claim{record: record}.key().ID()
			at, err := view.Applied(t.Context(), tx, id)
			if err != nil {
				return err
			}
			list, err := view.Explain(t.Context(), tx, id, at, nil)
			if err == nil && (len(list) != 2 || list[0].Rule != view.RuleWins || list[1].Rule != want) {
				t.Errorf("record %s: got %+v, want the second to be %s", record, list, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *speaker) claimsUpTo(heard map[int]int) func(yield func(history.Event) bool) {
	return func(yield func(history.Event) bool) {
		for lane, words := range s.words {
			for _, w := range words[:heard[lane]] {
				if w.event != nil && !yield(*w.event) {
					return
				}
			}
		}
	}
}

func (s *speaker) decisionsUpTo(heard map[int]int) decision.InForce {
	return decision.Latest(func(yield func(decision.Decision) bool) {
		for lane, words := range s.words {
			for _, w := range words[:heard[lane]] {
				if w.decided != nil && !yield(*w.decided) {
					return
				}
			}
		}
	}, nil)
}

// An offer as of a time is what was valid then, whether or not it is over by now; nothing more than time makes that so.
func TestValidityIsThatOfTheTimeAskedAbout(t *testing.T) {
	pool := database(t)
	at := func(micros int64) offer.Time { return offer.TimeOf(time.UnixMicro(micros)) }
	err := scratch(t.Context(), pool, func(tx pgx.Tx) error {
		s := &speaker{feeder: newFeeder(), words: map[int][]word{}}
		for _, c := range []struct {
			price       string
			from, until int64
		}{{"1", 1, 0}, {"2", 3, 5}} {
			o := claim{record: "A", price: c.price, at: at(c.from).Text}.observation(t, c.price)
			if c.until > 0 {
				o.Due, o.Content.ValidUntil = c.from*1000, at(c.until)
				o.Rank.Content = o.Content.Digest()
			}
			if err := s.claim(t.Context(), tx, 1, o); err != nil {
				return err
			}
		}
		for _, c := range []struct {
			asOf  int64 // microseconds; 0: now
			price string
		}{{1, "1"}, {2, "1"}, {3, "2"}, {4, "2"}, {5, "1"}, {0, "2"}, {-5, "1"}} {
			var ns *int64
			switch {
			case c.asOf > 0:
				ns = new(c.asOf * 1000)
			case c.asOf < 0: // the moment has come
				if err := s.decide(t.Context(), tx, momentLane, decision.Decision{Subject: decision.OfMoment("t1", -c.asOf*1000), Verdict: decision.Due,
					Standing: decision.Counting, Moment: -c.asOf * 1000}); err != nil {
					return err
				}
			}
			var price string
			if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE offerlog_project"); err != nil {
				return err
			}
			err := tx.QueryRow(t.Context(), `SELECT o.price::text
			                                   FROM fold('t1', $1, ARRAY[1, 4], ARRAY[9, 9]::bigint[], $2) AS f
			                                   JOIN observation AS o ON (o.tenant, o.offer, o.id) = ('t1', $1, f.observation)`,
				uuid.UUID(claim{record: "A"}.key().ID()), ns).Scan(&price)
			if err != nil {
				return err
			}
			if price != c.price {
				t.Errorf("as of %d: got price %s, want %s", c.asOf, price, c.price)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
