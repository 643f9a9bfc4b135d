package project_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams/project"
)

var operator = project.Command{Actor: "test"}

// build makes a generation and fills it.
func (in *installation) build() (id int) {
	in.t.Helper()
	id, err := project.Make(in.t.Context(), in.pool, operator)
	if err == nil {
		err = project.Fill(in.t.Context(), in.pool, id, func(int) {})
	}
	if err == nil {
		_, err = project.Finish(in.t.Context(), in.pool, id)
	}
	if err != nil {
		in.t.Fatal(err)
	}
	return id
}

func (in *installation) digestOf(generation int) (d offer.Digest) {
	in.t.Helper()
	in.query(func(tx pgx.Tx) (err error) {
		d, err = view.Digest(in.t.Context(), tx, generation)
		return err
	})
	return d
}

// feed shuffles the claims that stand in history and writes their events, with repeats.
func (in *installation) tell(lane int, prefix string, n int) {
	in.t.Helper()
	var claims []history.Observation
	for i := range n {
		c := claim{record: fmt.Sprintf("%s-%d", prefix, i%17), version: int64(i/17 + 1), price: fmt.Sprint(10 + i), deleted: i%5 == 4}
		claims = append(claims, c.observation(in.t, fmt.Sprintf("%s delivery %d", prefix, i)))
	}
	in.say(lane, claims...)
}

func TestS_000_09_a_view_that_was_dropped_is_built_again_to_the_same_digest(t *testing.T) {
	in := install(t, fake(t), 3)
	in.start()
	in.tell(100, "A", 60)
	in.settle()
	want := in.digest()
	in.superuser("DELETE FROM current_offer WHERE generation = 1")
	second := in.build()
	if got := in.digestOf(second); got != want {
		t.Errorf("got digest %s, want %s", got, want)
	}
	if _, err := project.Switch(t.Context(), in.pool, second, operator); err != nil {
		t.Fatal(err)
	}
	published := len(in.published())
	in.tell(101, "A", 60) // says again what is known: nothing new is published, whatever generation is active
	in.settle()
	if got := len(in.published()); got != published {
		t.Errorf("the hand-over published %d offers that stand as they were published", got-published)
	}
}

// A generation is filled while claims go on: both hold the same at every moment, only the active one publishes, and after a switch
// and back readers see what came meanwhile.
func TestAGenerationIsBuiltBesideTheActiveOne(t *testing.T) {
	in := install(t, fake(t), 3)
	stage := in.start()
	in.tell(100, "A", 80)
	in.settle()
	second, err := project.Make(t.Context(), in.pool, operator)
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error { return project.Fill(t.Context(), in.pool, second, func(int) {}) })
	for i := range 8 {
		in.tell(101, fmt.Sprint("B", i), 20)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	in.settle()
	if _, err := project.Finish(t.Context(), in.pool, second); err != nil {
		t.Fatal(err)
	}
	in.verify()
	stage.halt()
	if _, err := project.Switch(t.Context(), in.pool, second, operator); err != nil {
		t.Fatal(err)
	}
	in.start()
	in.tell(100, "C", 40)
	in.settle()
	in.verify()
	if a, b := in.digestOf(1), in.digestOf(second); a != b {
		t.Errorf("got digest %s of the new one, want that of the one before, %s, which is projected on", b, a)
	}
	if _, err := project.Retire(t.Context(), in.pool, second, operator); !errors.Is(err, project.ErrInUse) {
		t.Errorf("retire the active one: got error %v", err)
	}
	if _, err := project.Rollback(t.Context(), in.pool, operator); err != nil {
		t.Fatal(err)
	}
	in.tell(100, "D", 40)
	in.settle()
	in.verify()
	if n, err := project.Retire(t.Context(), in.pool, second, operator); err != nil || n == 0 {
		t.Errorf("retired with %d rows removed and error %v", n, err)
	}
	if n, err := project.Retire(t.Context(), in.pool, second, operator); err != nil || n != 0 {
		t.Errorf("again: %d rows removed and error %v, want nothing left to do", n, err)
	}
	in.tell(100, "E", 20)
	in.settle()
	in.verify()
}

func TestS_003_17_a_generation_is_complete_by_what_it_holds(t *testing.T) {
	in := install(t, fake(t), 2)
	in.start()
	in.tell(100, "A", 60)
	in.settle()
	second, err := project.Make(t.Context(), in.pool, operator)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		if _, err := project.Switch(t.Context(), in.pool, second, project.Command{Actor: "test", Reason: "whatever"}); !errors.Is(err, project.ErrIncomplete) {
			t.Errorf("%s: got error %v, want that it is incomplete", what, err)
		}
	}
	refused("its builder has died")
	if err := project.Fill(t.Context(), in.pool, second, func(int) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := project.Finish(t.Context(), in.pool, second); err != nil {
		t.Fatal(err)
	}
	in.superuser(fmt.Sprintf(`UPDATE generation SET manifest = jsonb_set(manifest, '{offers}', '1') WHERE id = %d`, second))
	refused("its manifest says otherwise")
}

// What the generation before showed wrongly is published as it is, once, with the partition's next batch.
func TestAHandOverPublishesWhatDiffers(t *testing.T) {
	in := install(t, fake(t), 1)
	in.start()
	in.tell(100, "A", 34)
	in.settle()
	in.superuser("UPDATE publication SET digest = '\\x00' WHERE offer IN (SELECT offer FROM current_offer WHERE record = 'A-1')")
	before := len(in.published())
	if _, err := project.Switch(t.Context(), in.pool, in.build(), operator); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		in.relay(kgo.TryCommit, in.feeder.events[100][:1]...)
		in.settle()
	}
	list := in.published()
	if len(list) != before+1 || list[before].Document.Record != "A-1" {
		t.Errorf("got %d more published, want A-1 once", len(list)-before)
	}
	in.verify()
}

func TestS_003_16_a_row_that_is_missing_or_wrong_is_named_and_refuses_the_switch(t *testing.T) {
	in := install(t, fake(t), 2)
	in.start()
	in.tell(100, "A", 60)
	in.settle()
	second := in.build()
	for name, c := range map[string]struct{ do, record, how string }{
		"a row is gone":                {"DELETE FROM current_offer WHERE generation = 2 AND record = 'A-3'", "A-3", "missing"},
		"a row has other flags":        {"UPDATE current_offer SET flags = '{x}' WHERE generation = 2 AND record = 'A-3'", "A-3", "differs"},
		"a row has other content":      {"UPDATE current_offer SET content = sha256('x') WHERE generation = 2 AND record = 'A-3'", "A-3", "differs"},
		"a row is deleted":             {"UPDATE current_offer SET deleted = NOT deleted WHERE generation = 2 AND record = 'A-3'", "A-3", "differs"},
		"a row is another partition's": {"UPDATE current_offer SET partition = 1 - partition WHERE generation = 2 AND record = 'A-3'", "A-3", "differs"},
		"a row is of no offer": {`INSERT INTO current_offer SELECT tenant, 2, gen_random_uuid(), partition, account, 'Z', strong, ord, mapping_version, content, observation, deleted, flags
		                            FROM current_offer WHERE generation = 1 AND record = 'A-3'`, "Z", "extra"},
	} {
		t.Run(name, func(t *testing.T) {
			in.superuser(c.do)
			p, err := project.Switch(t.Context(), in.pool, second, project.Command{Actor: "test", Reason: "whatever"})
			if !errors.Is(err, project.ErrIncomplete) || !strings.Contains(err.Error(), c.record) {
				t.Errorf("got error %v, want that %s is named", err, c.record)
			}
			if len(p.Wrong) != 1 || p.Wrong[0].Record != c.record || p.Wrong[0].How != c.how || p.Status() != "damaged" {
				t.Errorf("got %+v, %s, want damaged, %s %s", p.Wrong, p.Status(), c.record, c.how)
			}
			in.superuser("DELETE FROM current_offer WHERE generation = 2 AND record IN ('A-3', 'Z')")
			if err := project.Fill(t.Context(), in.pool, second, func(int) {}); err != nil {
				t.Fatal(err)
			}
			if p, err := project.Prove(t.Context(), in.pool, second); err != nil || !p.Complete() {
				t.Errorf("filled again: got %v, %v", p.Err(), err)
			}
		})
	}
}

func TestS_003_16_a_generation_that_is_empty_or_has_far_fewer_offers_needs_a_reason(t *testing.T) {
	for name, n := range map[string]int{"empty": 0, "far fewer": 20} {
		t.Run(name, func(t *testing.T) {
			in := install(t, fake(t), 2)
			in.start()
			in.until("the projector has begun", func() bool { return len(in.positions()) > 0 })
			in.tell(100, "A", n)
			in.settle()
			in.superuser(`INSERT INTO current_offer (tenant, generation, offer, partition, account, record, deleted, flags)
			              SELECT 't1', 1, gen_random_uuid(), 0, 'ACC-1', 'X-' || i, false, '{}' FROM generate_series(1, 20) AS i`)
			second := in.build()
			if _, err := project.Switch(t.Context(), in.pool, second, operator); !errors.Is(err, project.ErrShrunken) {
				t.Errorf("got error %v, want that it has fewer", err)
			}
			if got := in.active(); got != 1 {
				t.Errorf("generation %d is active", got)
			}
			if _, err := project.Switch(t.Context(), in.pool, second, project.Command{Actor: "test", Reason: "that supplier is gone"}); err != nil {
				t.Error(err)
			}
			if got := in.active(); got != second {
				t.Errorf("generation %d is active", got)
			}
		})
	}
}

func (in *installation) active() (id int) {
	in.t.Helper()
	in.query(func(tx pgx.Tx) (err error) {
		id, err = view.Active(in.t.Context(), tx)
		return err
	})
	return id
}

// Builders and operators who do the same at once: each build is whole, and decisions follow one another.
func TestManyBuildAndSwitchAtOnce(t *testing.T) {
	in := install(t, fake(t), 3)
	in.start()
	in.tell(100, "A", 60)
	in.settle()
	ids := make([]int, 3)
	var g errgroup.Group
	for i := range ids {
		g.Go(func() (err error) {
			if ids[i], err = project.Make(t.Context(), in.pool, operator); err != nil {
				return err
			}
			// Two builders of one generation do no harm either.
			other := make(chan error)
			go func() { other <- project.Fill(t.Context(), in.pool, ids[i], func(int) {}) }()
			return errors.Join(project.Fill(t.Context(), in.pool, ids[i], func(int) {}), <-other)
		})
	}
	in.tell(101, "B", 60)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	in.settle()
	for _, id := range ids {
		g.Go(func() error {
			if _, err := project.Switch(t.Context(), in.pool, id, operator); !errors.Is(err, project.ErrMoved) {
				return err
			}
			return nil
		})
		g.Go(func() error {
			_, err := project.Rollback(t.Context(), in.pool, operator)
			if errors.Is(err, project.ErrMoved) || errors.Is(err, project.ErrNotBefore) {
				return nil
			}
			return err
		})
	}
	in.tell(100, "C", 60)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	in.settle()
	in.verify()
	var torn, moves int
	in.query(func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE d.before <> d.was), count(*)
		                                   FROM (SELECT d.before, lag(d.generation, 1, 1) OVER (ORDER BY d.n) AS was
		                                           FROM generation_decision AS d WHERE d.action IN ('switch', 'rollback')) AS d`).Scan(&torn, &moves)
	})
	if torn != 0 || moves == 0 {
		t.Errorf("%d of %d moves of the pointer do not begin where the one before has ended", torn, moves)
	}
}

// A partition in which nothing comes publishes the generation that is active as well: the one before can be retired.
func TestAQuietPartitionHandsOver(t *testing.T) {
	in := install(t, fake(t), 3)
	in.start()
	in.tell(100, "A", 30)
	in.settle()
	second := in.build()
	for range 2 { // again: it is active
		if _, err := project.Switch(t.Context(), in.pool, second, operator); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := project.Retire(t.Context(), in.pool, 1, operator); err != nil || n == 0 {
		t.Errorf("retired with %d rows removed and error %v", n, err)
	}
	if _, err := project.Rollback(t.Context(), in.pool, operator); !errors.Is(err, view.ErrNoGeneration) {
		t.Errorf("go back to what is retired: got error %v", err)
	}
}

// pages reads all offers in pages, as tenant t1, each page in a transaction of its own, and calls f after each. It returns how many
// offers were marked, and how many were not.
func (in *installation) pages(f func(page int)) (marked, others int, err error) {
	ctx := in.t.Context()
	read := func(f func(tx pgx.Tx) error) error { return postgres.AsTenant(ctx, in.pool, postgres.Read, "t1", f) }
	var at view.Cursor
	err = read(func(tx pgx.Tx) (err error) {
		at.Generation, err = view.Active(ctx, tx)
		return err
	})
	for n := 1; err == nil; n++ {
		var page view.Page
		err = read(func(tx pgx.Tx) (err error) {
			page, err = view.PageOf(ctx, tx, view.Filter{IncludeDeleted: true, Limit: 7}, at)
			return err
		})
		for _, o := range page.Offers {
			if slices.Contains(o.Flags, "marked") {
				marked++
			} else {
				others++
			}
		}
		f(n)
		if err != nil || page.Next == nil {
			break
		}
		at, err = view.ParseCursor(page.Next.String())
	}
	return marked, others, err
}

// marked is an installation whose active generation marks its offers, so that what readers see tells the generation.
func marked(t *testing.T) (in *installation, offers int) {
	in = install(t, fake(t), 3)
	in.start()
	in.tell(100, "A", 60)
	in.tell(100, "B", 60)
	in.settle()
	in.superuser("UPDATE current_offer SET flags = '{marked}'")
	in.query(func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT count(*) FROM current_offer").Scan(&offers)
	})
	return in, offers
}

func TestS_003_13_readers_see_nothing_of_a_generation_that_is_built(t *testing.T) {
	in, all := marked(t)
	built := make(chan struct{})
	var reader errgroup.Group
	reader.Go(func() error {
		for {
			old, fresh, err := in.pages(func(int) {})
			if err != nil || old != all || fresh != 0 {
				return fmt.Errorf("got %d offers of the new generation, %d of %d of the active one, error %w", fresh, old, all, err)
			}
			select {
			case <-built:
				return nil
			default:
			}
		}
	})
	second := in.build()
	close(built)
	if err := reader.Wait(); err != nil {
		t.Error(err)
	}
	err := postgres.AsTenant(t.Context(), in.pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		_, err := view.PageOf(t.Context(), tx, view.Filter{Limit: 1000}, view.Cursor{Generation: second})
		return err
	})
	if !errors.Is(err, view.ErrGone) {
		t.Errorf("a made up cursor of a generation that was never active: got error %v", err)
	}
}

func TestS_003_14_fifty_readers_page_across_a_switch_and_each_sees_one_generation(t *testing.T) {
	in, all := marked(t)
	second := in.build()
	var (
		readers errgroup.Group
		begun   sync.WaitGroup
		moved   = make(chan struct{})
	)
	for i := range 50 {
		begun.Add(1)
		readers.Go(func() error {
			across := 1 + i%4 // the page after which this reader waits for the switch
			old, fresh, err := in.pages(func(page int) {
				if page == across {
					begun.Done()
					<-moved
				}
			})
			if err != nil || old != all || fresh != 0 {
				return fmt.Errorf("a reader got %d offers of the generation before, %d of the new one, of %d, error %w", old, fresh, all, err)
			}
			if old, fresh, err = in.pages(func(int) {}); err != nil || old != 0 || fresh != all {
				return fmt.Errorf("begun after the switch: got %d offers of the generation before, %d of the new one, of %d, error %w", old, fresh, all, err)
			}
			return nil
		})
	}
	begun.Wait()
	if _, err := project.Switch(t.Context(), in.pool, second, operator); err != nil {
		t.Fatal(err)
	}
	close(moved)
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}

	// What is retired is read no further: better an error than a reading that ends early.
	in.tell(100, "A", 60) // what differs is published, and each partition hands over
	in.tell(100, "B", 60)
	in.settle()
	if _, err := project.Retire(t.Context(), in.pool, 1, operator); err != nil {
		t.Fatal(err)
	}
	err := postgres.AsTenant(t.Context(), in.pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		_, err := view.PageOf(t.Context(), tx, view.Filter{Limit: 7}, view.Cursor{Generation: 1})
		return err
	})
	if !errors.Is(err, view.ErrGone) {
		t.Errorf("a cursor of a retired generation: got error %v", err)
	}
}

// scans are the nodes of a plan that read a table.
func scans(t *testing.T, plan map[string]any, table string) (found []map[string]any) {
	t.Helper()
	if plan["Relation Name"] == table {
		found = append(found, plan)
	}
	parts, _ := plan["Plans"].([]any)
	for _, p := range parts {
		found = append(found, scans(t, p.(map[string]any), table)...)
	}
	return found
}

func TestS_003_12_readers_read_the_pointed_generation_alone_and_its_manifest_beside_it(t *testing.T) {
	in, _ := marked(t)
	second := in.build()
	if _, err := project.Switch(t.Context(), in.pool, second, operator); err != nil {
		t.Fatal(err)
	}
	in.superuser(`INSERT INTO current_offer (tenant, generation, offer, partition, account, record, deleted, flags)
	              SELECT 't1', g, gen_random_uuid(), 0, 'ACC-1', 'X-' || i, false, '{}' FROM generate_series(1, 3) AS g, generate_series(1, 4000) AS i`)
	in.superuser("ANALYZE current_offer")
	var rows float64
	in.query(func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT count(*) FROM current_offer WHERE generation = $1", second).Scan(&rows)
	})
	anything := uuid.UUID{}
	for statement, args := range map[string][]any{
		"offers":  {"", "", "", true, 0, nil, nil, nil, anything},
		"items":   {"", 100},
		"applied": {anything},
	} {
		t.Run(statement, func(t *testing.T) {
			text, err := os.ReadFile("../../pkg/view/" + statement + ".sql")
			if err != nil {
				t.Fatal(err)
			}
			var plans []struct{ Plan map[string]any }
			err = postgres.AsTenant(t.Context(), in.pool, postgres.Read, "t1", func(tx pgx.Tx) error {
				return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+string(text), args...).Scan(&plans)
			})
			if err != nil {
				t.Fatal(err)
			}
			found := scans(t, plans[0].Plan, "current_offer")
			if len(found) == 0 {
				t.Fatal("no node reads current_offer: the test does not see it")
			}
			for _, scan := range found {
				cond, _ := scan["Index Cond"].(string)
				removed, _ := scan["Rows Removed by Filter"].(float64)
				if !strings.Contains(cond, "generation =") || scan["Actual Rows"].(float64)+removed > rows {
					t.Errorf("reads more than the %g rows of the pointed generation: %v", rows, scan)
				}
			}
		})
	}
	read := func(tenant string) (m *view.Manifest) {
		err := postgres.AsTenant(t.Context(), in.pool, postgres.Read, tenant, func(tx pgx.Tx) (err error) {
			m, err = view.ManifestOf(t.Context(), tx, second)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := read("t1"); m == nil || m.Generation != second || m.Offers == 0 || len(m.Tenants) != 1 || m.Tenants[0].Tenant != "t1" || m.Tenants[0].Part != m.Part ||
		m.Tenants[0].Inputs.Claims != 120 {
		t.Errorf("got manifest %+v", m)
	}
	if m := read("t2"); m != nil {
		t.Errorf("another tenant's reader got %+v", m)
	}
}

func TestTwoGenerationsAreComparedFieldByField(t *testing.T) {
	in := install(t, fake(t), 2)
	in.start()
	in.tell(100, "A", 34)
	in.settle()
	second := in.build()
	compare := func(before, after int) (found map[string]view.Difference, c view.Comparison) {
		t.Helper()
		found = map[string]view.Difference{}
		c, err := project.Compare(t.Context(), in.pool, before, after, func(d view.Difference) error {
			found[d.Record] = d
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, c
	}
	if found, c := compare(1, second); c.Differ() || c.Same != 17 || len(found) != 0 {
		t.Errorf("two builds of one history: got %+v, %v", c, found)
	}
	// have two versions each; the second generation comes to show what nobody claims of them.
	in.superuser("DELETE FROM current_offer WHERE (generation = 2 AND record = 'A-1') OR (generation = 1 AND record = 'A-2')")
	in.superuser(`UPDATE current_offer AS c SET ord = o.ord, observation = o.id, content = o.content, deleted = o.deleted
	                FROM observation AS o WHERE o.offer = c.offer AND o.ord = 1 AND c.generation = 2 AND c.record = 'A-3'`)
	in.superuser(`UPDATE current_offer SET strong = NULL, ord = NULL, mapping_version = NULL, content = NULL, observation = NULL, deleted = true
	               WHERE generation = 2 AND record = 'A-6'`)
	in.superuser("UPDATE current_offer SET flags = '{x}' WHERE generation = 2 AND record = 'A-5'")
	in.superuser(`INSERT INTO current_offer (tenant, generation, offer, partition, account, record, deleted, flags) VALUES ('t1', 2, gen_random_uuid(), 0, 'ACC-1', 'X', true, '{}')`)
	found, c := compare(1, second)
	if want := (view.Comparison{Before: 1, After: 2, Same: 12, Changed: 3, OnlyBefore: 1, OnlyAfter: 2}); c != want || len(found) != 6 {
		t.Errorf("got %+v, want %+v; %v", c, want, found)
	}
	for record, in := range map[string]string{"A-1": "before", "A-2": "after", "X": "after", "A-3": "both", "A-5": "both", "A-6": "both"} {
		if found[record].In != in {
			t.Errorf("%s is in %q, want %s", record, found[record].In, in)
		}
	}
	field := func(record, name string) string {
		i := slices.IndexFunc(found[record].Fields, func(f view.FieldDifference) bool { return f.Field == name })
		if i < 0 {
			return "equal"
		}
		return fmt.Sprintf("%s -> %s", found[record].Fields[i].Was, found[record].Fields[i].Is)
	}
	for at, want := range map[[2]string]string{
		{"A-3", "price"}:    `"30" -> "13"`,
		{"A-3", "currency"}: "equal",
		{"A-5", "flags"}:    `[] -> ["x"]`,
		{"A-5", "price"}:    "equal",
		{"A-6", "price"}:    `"33" -> null`,
		{"A-6", "deleted"}:  "false -> true",
	} {
		if got := field(at[0], at[1]); got != want {
			t.Errorf("%s of %s: got %s, want %s", at[1], at[0], got, want)
		}
	}
	if _, err := project.Compare(t.Context(), in.pool, 1, 9, func(view.Difference) error { return nil }); !errors.Is(err, view.ErrNoGeneration) {
		t.Errorf("with one that there is not: got error %v", err)
	}
}
