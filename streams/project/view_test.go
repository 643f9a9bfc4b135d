package project_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, rig.Database(t))
}

func open(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// start is a checkpoint that has seen nothing. Its partition need not be there for view.Apply.
func start() view.Checkpoint { return view.Checkpoint{Generation: 1, Applied: view.Vector{}} }

// apply projects events as one batch, without a checkpoint that is kept.
func apply(ctx context.Context, tx pgx.Tx, c *view.Checkpoint, events ...history.Event) ([]view.Change, error) {
	if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_project"); err != nil {
		return nil, err
	}
	var touched []offer.Key
	for _, e := range events {
		if c.Take(number(e)) {
			touched = append(touched, e.Key)
		}
	}
	return view.Apply(ctx, tx, *c, touched, false)
}

var errRollback = errors.New("rolled back on purpose")

// scratch runs f in a transaction of which nothing stays.
func scratch(ctx context.Context, pool *pgxpool.Pool, f func(tx pgx.Tx) error) error {
	err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return errRollback
	})
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}

// The view after each step of a story: what is shown, and whether the step changed it.
func TestTheViewFollowsRankAndNeverArrival(t *testing.T) {
	type step struct {
		claim
		shown   string // price, "deleted", with "?" where the order is ambiguous
		changed bool
	}
	pool := database(t)
	for name, story := range map[string][]step{
		"S_004_01 v7 99, v8 119, v7 again": {
			{claim{version: 7, price: "99"}, "99", true},
			{claim{version: 8, price: "119"}, "119", true},
			{claim{version: 7, price: "99"}, "119", false},
		},
		"S_004_07 the six-row table": {
			{claim{version: 7, price: "99"}, "99", true},
			{claim{version: 8, price: "119"}, "119", true},
			{claim{version: 8, price: "119"}, "119", false},
			{claim{version: 7, price: "99"}, "119", false},
			{claim{version: 9, deleted: true}, "deleted", true},
			{claim{version: 8, price: "119"}, "deleted", false},
		},
		"S_004_09 v9 deleted, then an unseen v8": {
			{claim{version: 9, deleted: true}, "deleted", true},
			{claim{version: 8, price: "119"}, "deleted", false},
		},
		"S_004_11 v10 after the deletion": {
			{claim{version: 9, deleted: true}, "deleted", true},
			{claim{version: 10, price: "129"}, "129", true},
		},
		"S_004_12 an old deletion cannot remove a newer offer": {
			{claim{version: 9, price: "99"}, "99", true},
			{claim{version: 8, deleted: true}, "99", false},
		},
		"S_004_15 a weak claim never outranks a version": {
			{claim{version: 1, price: "1"}, "1", true},
			{claim{at: "2030-01-01T00:00:00Z", price: "2"}, "1", false},
		},
		"S_004_16 two weak claims of one second": {
			{claim{at: "2025-03-01T10:00:00Z", price: "4"}, "4", true},
			{claim{at: "2025-03-01T10:00:00Z", price: "6"}, "?", true},
		},
		"S_000_08 the latest observation is shown": {
			{claim{at: "2025-03-01T08:00:00Z", price: "8"}, "8", true},
			{claim{at: "2025-03-01T09:00:00Z", price: "9"}, "9", true},
		},
		"S_000_41 S_000_50 a late backfill leaves the view alone": {
			{claim{at: "2025-03-01T09:00:00Z", price: "9"}, "9", true},
			{claim{at: "2025-03-01T07:00:00Z", price: "7"}, "9", false},
		},
		"S_000_43 six at eight, four at nine": {
			{claim{at: "2025-03-01T08:00:00Z", price: "6"}, "6", true},
			{claim{at: "2025-03-01T09:00:00Z", price: "4"}, "4", true},
		},
		"equal content at one time is no ambiguity": {
			{claim{at: "2025-03-01T09:00:00Z", price: "9"}, "9", true},
			{claim{at: "2025-03-01T09:00:00Z", price: "9"}, "9", false},
		},
		"another feed's version of the same number is ambiguous": {
			{claim{version: 3, price: "3"}, "3", true},
			{claim{version: 3, price: "4", feed: "acme-night"}, "?", true},
			{claim{version: 4, price: "5"}, "5", true},
		},
		"a newer mapping of the same revision wins without ambiguity": {
			{claim{version: 3, price: "3"}, "3", true},
			{claim{version: 3, price: "4", mapping: 2}, "4", true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := scratch(t.Context(), pool, func(tx pgx.Tx) error {
				f, c := newFeeder(), start()
				for i, s := range story {
					s.record = "A-1"
					if err := f.store(t.Context(), tx, 7, s.observation(t, fmt.Sprint(name, i))); err != nil {
						return err
					}
					changes, err := apply(t.Context(), tx, &c, f.events[7][i])
					if err != nil {
						return err
					}
					if err := view.Publish(t.Context(), tx, numbered(changes, int64(i+1)), time.Now()); err != nil {
						return err
					}
					if got := len(changes) == 1; got != s.changed {
						t.Errorf("step %d: changed: got %t, want %t", i, got, s.changed)
					}
					if got := shown(t, tx, "A-1"); got != s.shown && (s.shown != "?" || !strings.HasSuffix(got, "?")) {
						t.Errorf("step %d: got %q, want %q", i, got, s.shown)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func numbered(changes []view.Change, revision int64) []view.Change {
	for i := range changes {
		changes[i].Revision = revision
	}
	return changes
}

// shown is what a reader of tenant t1 sees of a record, in a few letters.
func shown(t *testing.T, tx pgx.Tx, record string) string {
	t.Helper()
	if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE offerlog_read; SET LOCAL offerlog.tenant = 't1'"); err != nil {
		t.Fatal(err)
	}
	list, err := view.Offers(t.Context(), tx, view.Filter{Record: record, IncludeDeleted: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		return fmt.Sprintf("%d offers", len(list))
	}
	s := list[0].Price.String()
	if list[0].Deleted {
		s = "deleted"
	}
	if slices.Contains(list[0].Flags, offer.FlagAmbiguousOrder) {
		s += "?"
	}
	return s
}

// deliveries are a history without conflicting revisions: several offers with versions, ties, deletions, weak claims and restatements.
func deliveries(t testing.TB, tenant string) (all []history.Observation) {
	var claims []claim
	for _, record := range []string{"A-1", "B-2"} {
		claims = append(claims,
			claim{record: record, version: 7, price: "99"},
			claim{record: record, version: 8, price: "119"},
			claim{record: record, version: 8, price: "118", feed: "acme-night"},
			claim{record: record, version: 9, deleted: record == "B-2"},
			claim{record: record, at: "2031-01-01T00:00:00Z", price: "5"},
		)
	}
	claims = append(claims,
		claim{record: "C-3", at: "2025-03-01T10:00:00Z", price: "4"},
		claim{record: "C-3", at: "2025-03-01T10:00:00Z", price: "6"},
		claim{record: "C-3", at: "2025-03-01T10:00:00.000000001Z", price: "7"},
		claim{record: "C-3", at: "2025-03-01T10:00:00.000000001Z", price: "8"},
		claim{record: "D-4", version: 5, price: "1"},
		claim{record: "D-4", version: 5, price: "2", mapping: 2},
		claim{record: "D-4", version: 5, price: "3", feed: "acme-night"},
	)
	for i, c := range claims {
		c.tenant = tenant
		all = append(all, c.observation(t, numberedDelivery(i)))
		if c.version > 0 { // every message twice: another delivery restates the revision
			all = append(all, c.observation(t, numberedDelivery(i)+"-again"))
		}
	}
	return all
}

func TestS_004_05_AThousandShufflesWithDuplicatesGiveOneView(t *testing.T) {
	const rounds, workers = 1000, 4
	pool := database(t)
	var wg sync.WaitGroup
	for n := range workers {
		rng := seeded(t)
		wg.Go(func() {
			tenant := fmt.Sprintf("t%d", n) // and lanes of its own, so that no worker waits for another's keys
			all := deliveries(t, tenant)
			want := view.Sum(maps.Values(view.Fold(func(yield func(history.Event) bool) {
				for _, o := range all {
					if !yield(history.Event{Observation: o}) {
						return
					}
				}
			}, decision.InForce{})))
			for round := range rounds / workers {
				var got offer.Digest
				err := scratch(t.Context(), pool, func(tx pgx.Tx) (err error) {
					got, err = digestOfAShuffle(t.Context(), tx, rng, all, 10*n)
					return err
				})
				if err != nil || got != want {
					t.Errorf("worker %d, round %d: got %s, %v, want %s", n, round, got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// digestOfAShuffle ingests deliveries in any order through any lanes, and projects the events as a partition may hold them,
// in batches of any size.
func digestOfAShuffle(ctx context.Context, tx pgx.Tx, rng *rand.Rand, all []history.Observation, firstLane int) (offer.Digest, error) {
	lanes := map[int][]history.Observation{}
	f := newFeeder()
	order := rng.Perm(len(all))
	for _, i := range order {
		lane := firstLane + rng.IntN(3)
		lanes[lane] = append(lanes[lane], all[i])
	}
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		if err := f.store(ctx, tx, lane, lanes[lane]...); err != nil {
			return offer.Digest{}, err
		}
	}
	c := start()
	for log := f.shuffled(rng); len(log) > 0; {
		n := min(len(log), 1+rng.IntN(20))
		if _, err := apply(ctx, tx, &c, log[:n]...); err != nil {
			return offer.Digest{}, err
		}
		log = log[n:]
	}
	return view.Digest(ctx, tx, 1)
}

func TestS_004_13_TheComparisonStandsInTheWrite(t *testing.T) {
	const rounds = 1000
	pool := database(t)
	ctx := t.Context()
	f := newFeeder()
	var eight, nine []history.Observation
	for i := range rounds {
		record := fmt.Sprintf("R-%d", i)
		eight = append(eight, claim{record: record, version: 8, price: "8"}.observation(t, numberedDelivery(i)))
		nine = append(nine, claim{record: record, version: 9, price: "9"}.observation(t, numberedDelivery(i)))
	}
	err := postgres.InTx(ctx, pool, postgres.Ingest, func(tx pgx.Tx) error {
		return errors.Join(f.store(ctx, tx, 108, eight...), f.store(ctx, tx, 109, nine...))
	})
	if err != nil {
		t.Fatal(err)
	}
	// Each worker knows only its own lane, and none holds a checkpoint: all that decides is the write. Every second row is
	// there before, so that half of the rounds race for the insert and half for the update.
	write := func(lane int, seq int64, k offer.Key) error {
		return postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
			c := start()
			c.Applied[lane] = seq
			_, err := view.Apply(ctx, tx, c, []offer.Key{k}, false)
			return err
		})
	}
	for i := range rounds {
		seq, k := int64(i+1), eight[i].Key
		if i%2 == 0 {
			if err := write(108, seq, k); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for _, lane := range []int{108, 109} {
			wg.Go(func() {
				if err := write(lane, seq, k); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	want := view.Sum(maps.Values(view.Fold(func(yield func(history.Event) bool) {
		for _, o := range nine {
			if !yield(history.Event{Observation: o}) {
				return
			}
		}
	}, decision.InForce{})))
	err = scratch(ctx, pool, func(tx pgx.Tx) error {
		got, err := view.Digest(ctx, tx, 1)
		if got != want {
			t.Errorf("got %s, want %s: version 9 everywhere", got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestS_004_09_NobodyMayDeleteFromTheView(t *testing.T) {
	pool := database(t)
	for _, table := range []string{"current_offer", "publication"} {
		for _, role := range postgres.Roles() {
			err := postgres.InTx(t.Context(), pool, role, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "DELETE FROM "+table)
				return err
			})
			if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "42501" {
				t.Errorf("%s of %s: got %v, want permission denied", role, table, err)
			}
		}
	}
	// And what the projector may ask to be forgotten is nothing but a deletion that is past its horizon.
	f, c := newFeeder(), start()
	err := postgres.InTx(t.Context(), pool, postgres.Project, func(tx pgx.Tx) error {
		err := f.store(t.Context(), tx, 1, claim{record: "A-1", version: 1}.observation(t, "1"), claim{record: "A-2", version: 1, deleted: true}.observation(t, "2"))
		if err != nil {
			return err
		}
		if _, err := apply(t.Context(), tx, &c, f.events[1]...); err != nil {
			return err
		}
		for _, function := range []string{
			"SELECT count(forget(c.tenant, c.generation, c.offer, c.strong, c.ord, c.observation) OR NULL) FROM current_offer AS c",
			"SELECT count(unpublish(p.tenant, p.offer, p.revision + 1) OR NULL) FROM publication AS p",
		} {
			var gone int
			if err := tx.QueryRow(t.Context(), function).Scan(&gone); err != nil || gone != 0 {
				t.Errorf("%s: got %d, %v, want nothing forgotten", function, gone, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestS_004_10_ListsShowWhatIsForSale(t *testing.T) {
	pool := database(t)
	ctx := t.Context()
	f, c := newFeeder(), start()
	deleted := claim{record: "A-1", version: 9, deleted: true}
	err := postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) error {
		err := f.store(ctx, tx, 1, claim{record: "A-1", version: 8, price: "8"}.observation(t, "1"), deleted.observation(t, "2"),
			claim{record: "B-2", version: 1, price: "1"}.observation(t, "3"), claim{record: "C-3", tenant: "t2", version: 1}.observation(t, "4"))
		if err != nil {
			return err
		}
		_, err = apply(ctx, tx, &c, f.events[1]...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		tenant string
		filter view.Filter
		want   []string
	}{
		"deleted offers are left out":  {"t1", view.Filter{}, []string{"B-2"}},
		"unless they are asked for":    {"t1", view.Filter{IncludeDeleted: true}, []string{"A-1", "B-2"}},
		"one record":                   {"t1", view.Filter{Account: "ACC-1", Record: "B-2"}, []string{"B-2"}},
		"one item":                     {"t1", view.Filter{Item: "MPN-B-2"}, []string{"B-2"}},
		"another account":              {"t1", view.Filter{Account: "ACC-2", IncludeDeleted: true}, nil},
		"another tenant sees its own":  {"t2", view.Filter{IncludeDeleted: true}, []string{"C-3"}},
		"without a tenant nothing":     {"", view.Filter{IncludeDeleted: true}, nil},
		"an unknown tenant has no row": {"t3", view.Filter{IncludeDeleted: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			err := postgres.AsTenant(ctx, pool, postgres.Read, tt.tenant, func(tx pgx.Tx) error {
				list, err := view.Offers(ctx, tx, tt.filter)
				for _, d := range list {
					got = append(got, d.Record)
				}
				return err
			})
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	err = postgres.AsTenant(ctx, pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		list, err := history.List(ctx, tx, history.Filter{Account: "ACC-1", Record: "A-1", Limit: 10})
		if len(list) != 2 {
			t.Errorf("history of the deleted offer: got %d observations, want 2", len(list))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAReadTellsWhenTheSourceWasLastSeen(t *testing.T) {
	pool := database(t)
	ctx := t.Context()
	f, c := newFeeder(), start()
	err := scratch(ctx, pool, func(tx pgx.Tx) error {
		again := claim{record: "A-1", version: 8, price: "8", at: "2025-03-02T10:00:00.5Z"}.observation(t, "2")
		if err := f.store(ctx, tx, 1, claim{record: "A-1", version: 8, price: "8"}.observation(t, "1"), again); err != nil {
			return err
		}
		if _, err := apply(ctx, tx, &c, f.events[1]...); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SET LOCAL ROLE offerlog_read; SET LOCAL offerlog.tenant = 't1'"); err != nil {
			return err
		}
		list, err := view.Offers(ctx, tx, view.Filter{})
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].ObservedAt != "2025-03-01T10:00:00Z" || list[0].LastSeenAt != "2025-03-02T10:00:00.5Z" {
			t.Errorf("got %+v, want one offer of the first claim, last seen with the second", list)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAClaimBeyondTheCheckpointDoesNotCount(t *testing.T) {
	pool := database(t)
	ctx := t.Context()
	err := scratch(ctx, pool, func(tx pgx.Tx) error {
		f, c := newFeeder(), start()
		if err := f.store(ctx, tx, 1, claim{record: "A-1", version: 1, price: "1"}.observation(t, "1"), claim{record: "A-1", version: 2, price: "2"}.observation(t, "2")); err != nil {
			return err
		}
		// Lane 2 restates version 1, and says of version 3 what lane 1 has not told yet.
		if err := f.store(ctx, tx, 2, claim{record: "A-1", version: 1, price: "1"}.observation(t, "3"), claim{record: "A-1", version: 3, price: "3"}.observation(t, "4")); err != nil {
			return err
		}
		for i, step := range []struct {
			event history.Event
			want  string
		}{
			{f.events[2][0], "1"}, // a sighting that comes before what it restates
			{f.events[1][0], "1"},
			{f.events[2][1], "3"},
			{f.events[1][1], "3"}, // version 2, overtaken
		} {
			if _, err := apply(ctx, tx, &c, step.event); err != nil {
				return err
			}
			if got := shown(t, tx, "A-1"); got != step.want {
				t.Errorf("step %d: got %s, want %s", i, got, step.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnEventWithoutHistoryIsAnError(t *testing.T) {
	pool := database(t)
	err := scratch(t.Context(), pool, func(tx pgx.Tx) error {
		o, c := claim{record: "A-1", version: 1}.observation(t, "1"), start()
		o.Lane, o.Seq = 1, 1
		_, err := apply(t.Context(), tx, &c, history.Event{Observation: o})
		return err
	})
	if !errors.Is(err, view.ErrBehind) {
		t.Errorf("got %v, want %v", err, view.ErrBehind)
	}
}

// The SQL that picks and compares winners agrees with offer.Rank.Compare, whatever the members are.
func TestTheSQLRanksAsRankCompareDoes(t *testing.T) {
	pool := database(t)
	ctx := t.Context()
	rapid.Check(t, func(rt *rapid.T) {
		claims := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) claim {
			return claim{
				record:  "A-1",
				version: rapid.SampledFrom([]int64{0, 1, 2, 1<<63 - 2}).Draw(rt, "version"),
				at:      rapid.SampledFrom([]string{"1969-12-31T23:59:59.999999999Z", "2025-03-01T10:00:00Z"}).Draw(rt, "at"),
				price:   rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "price"),
				feed:    rapid.SampledFrom([]string{"acme-eu", "acme-night"}).Draw(rt, "feed"),
				mapping: rapid.IntRange(1, 3).Draw(rt, "mapping"),
				deleted: rapid.Bool().Draw(rt, "deleted"),
			}
		}), 1, 8).Draw(rt, "claims")
		err := scratch(ctx, pool, func(tx pgx.Tx) error {
			f, c := newFeeder(), start()
			var seen []history.Event
			for i, cl := range claims {
				// A revision that came with other content is a conflict, which never becomes an observation.
				o := cl.observation(t, numberedDelivery(i))
				if known := f.known[o.ID()]; known != nil {
					o.Content, o.Rank = known.Content, known.Rank
				}
				if err := f.store(ctx, tx, 1, o); err != nil {
					return err
				}
				seen = append(seen, f.events[1][i])
				if _, err := apply(ctx, tx, &c, seen[i]); err != nil {
					return err
				}
				got, err := view.Digest(ctx, tx, 1)
				if err != nil {
					return err
				}
				if want := view.Sum(maps.Values(view.Fold(slices.Values(seen), decision.InForce{}))); got != want {
					return fmt.Errorf("after %+v: got %s, want %s", claims[:i+1], got, want)
				}
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// However long the history of an offer, its newest end is all that is read.
func TestTheFoldReadsTheEndOfALongHistory(t *testing.T) {
	pool := database(t)
	ctx := t.Context()
	const versions = 5000
	var all []history.Observation
	for i := range versions {
		all = append(all, claim{record: "A-1", version: int64(i + 1), price: "1"}.observation(t, numberedDelivery(i)))
	}
	err := scratch(ctx, pool, func(tx pgx.Tx) error {
		f, c := newFeeder(), start()
		if err := f.store(ctx, tx, 1, all...); err != nil {
			return err
		}
		before, err := readSoFar(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := apply(ctx, tx, &c, f.events[1]...); err != nil {
			return err
		}
		after, err := readSoFar(ctx, tx)
		if rows := after - before; rows < 1 || rows > 10 {
			t.Errorf("one offer of %d versions: got %d rows of history read, want 1 to 10", versions, rows)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readSoFar counts the rows of history that this transaction has read.
func readSoFar(ctx context.Context, tx pgx.Tx) (rows int64, err error) {
	err = tx.QueryRow(ctx, `SELECT pg_stat_get_xact_tuples_returned('observation'::regclass)
	                             + (SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'observation'::regclass)::bigint`).Scan(&rows)
	return rows, err
}
