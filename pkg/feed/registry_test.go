package feed_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams/rig"
)

var appliedAt = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// open returns a pool on a database of the test's own.
func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), rig.Database(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// parse reads a feed, after replacing parts of it in pairs.
func parse(t *testing.T, replace ...string) feed.Spec {
	t.Helper()
	s, err := feed.ParseYAML("feed.yaml", []byte(strings.NewReplacer(replace...).Replace(head+tail)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apply applies a spec as a command of its own would.
func apply(t *testing.T, pool *pgxpool.Pool, s feed.Spec) (changed bool, fault *offer.Fault) {
	t.Helper()
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		changed, fault, err = feed.Apply(t.Context(), tx, s, offer.DeliveryID{1}, appliedAt)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return changed, fault
}

func mustApply(t *testing.T, pool *pgxpool.Pool, s feed.Spec) {
	t.Helper()
	if changed, fault := apply(t, pool, s); !changed || fault != nil {
		t.Fatalf("apply feed %s: changed %t, fault %v", s.Feed, changed, fault)
	}
}

func load(t *testing.T, pool *pgxpool.Pool) (r *feed.Registry) {
	t.Helper()
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		r, err = feed.Load(t.Context(), tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAFreshRegistryHasNoFeeds(t *testing.T) {
	r := load(t, open(t))
	if r.Version != 1 || len(r.Feeds()) != 0 || len(r.Topics()) != 0 || r.Route("deliveries", "/s") != nil {
		t.Errorf("got %+v", r)
	}
}

func TestTopicAndSourceSelectTheFeed(t *testing.T) {
	pool := open(t)
	mustApply(t, pool, parse(t, "[deliveries]", "[urgent, deliveries]"))
	mustApply(t, pool, parse(t, "feed: f", "feed: g", "/s", "/S", "account: A", "account: B", "order:", "identity: {fields: [exportid]}\norder:"))
	mustApply(t, pool, parse(t, "tenant: t1", "tenant: t2", "/s", "/s/", "observed_at", "version", "    source_record: .sku", "    source_record: .sku\n    source_version: .rev"))
	r := load(t, pool)
	for name, test := range map[string]struct{ topic, source, want string }{
		"the feed":                     {"deliveries", "/s", "t1/f"},
		"its other topic":              {"urgent", "/s", "t1/f"},
		"capital letters are others":   {"deliveries", "/S", "t1/g"},
		"a slash at the end is one":    {"deliveries", "/s/", "t2/f"},
		"another topic":                {"urgent", "/S", ""},
		"a source that nobody expects": {"deliveries", "/t", ""},
		"a blank counts":               {"deliveries", "/s ", ""},
		"a topic in capital letters":   {"Deliveries", "/s", ""},
		"nothing":                      {"", "", ""},
	} {
		got := ""
		if f := r.Route(test.topic, test.source); f != nil {
			got = f.Tenant + "/" + f.Name
		}
		if got != test.want {
			t.Errorf("%s: got feed %q, want %q", name, got, test.want)
		}
	}
	if want := []string{"deliveries", "urgent"}; !slices.Equal(r.Topics(), want) {
		t.Errorf("got topics %q, want %q", r.Topics(), want)
	}
	if len(r.Feeds()) != 3 {
		t.Errorf("got %d feeds, want 3", len(r.Feeds()))
	}
	f := r.Route("deliveries", "/S")
	if want := (offer.Source{Tenant: "t1", Connector: "c", Account: "B"}); f.Who() != want {
		t.Errorf("got %+v, want %+v", f.Who(), want)
	}
	if want := (delivery.Identity{Fields: []string{"exportid"}}); !reflect.DeepEqual(f.Identity, want) {
		t.Errorf("got identity %+v, want %+v", f.Identity, want)
	}
	if f.MappingVersion != 1 || f.Policy.InvalidRow != feed.InvalidRowAlone || f.ReadingDigest != f.Reading.Digest() || f.ReadingDigest != parse(t).Reading().Digest() {
		t.Errorf("got %+v", f)
	}
	if res := read(t, feed.Spec{Order: f.Reading.Order, Mapping: feed.Mapping{Fields: f.Reading.Fields}}, []byte(`{"sku":"A-1"}`)); len(res.Rejected) != 1 {
		t.Errorf("a reading that was stored does not read: %+v", res)
	}
}

// A version that was taken out of force stays taken: what is suggested is one that can be applied.
func TestTheVersionThatIsSuggestedIsFree(t *testing.T) {
	pool := open(t)
	mustApply(t, pool, parse(t))
	mustApply(t, pool, parse(t, "version: 1", "version: 2", ".sku", ".two"))
	mustApply(t, pool, parse(t, "version: 1", "version: 7", ".sku", ".seven"))
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		if _, err := feed.LockExclusive(t.Context(), tx); err != nil {
			return err
		}
		return feed.PutInForce(t.Context(), tx, "t1", "f", 2)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string][]string{
		"one out of force that reads otherwise": {"version: 1", "version: 7", ".sku", ".other"},
		"the one in force, read otherwise":      {"version: 1", "version: 2", ".sku", ".other"},
		"one below it":                          {},
	} {
		if _, fault := apply(t, pool, parse(t, spec...)); fault == nil || !strings.HasSuffix(fault.Message, "set mapping.version to 8") {
			t.Errorf("%s: got %v, want that version 8 is suggested", name, fault)
		}
	}
}

func TestApply(t *testing.T) {
	tests := map[string]struct {
		spec  []string // what differs from the feed that stands, at mapping version 2
		fault string   // a part of its message; "": there is none
		same  bool
	}{
		"the same again":                        {same: true},
		"a default written out is the same":     {spec: []string{"order:", "no_data: refuse\nlimits: {max_rows: 2000000}\npolicy: {invalid_row: row}\norder:"}, same: true},
		"another order of settings is the same": {spec: []string{"connector: c\naccount: A", "account: A\nconnector: c"}, same: true},
		"a policy":                              {spec: []string{"order:", "policy: {invalid_row: delivery}\norder:"}},
		"a topic more":                          {spec: []string{"[deliveries]", "[deliveries, urgent]"}},
		"another source":                        {spec: []string{"/s", "/s2"}},
		"the next mapping version":              {spec: []string{"version: 2", "version: 3", ".sku", ".id"}},
		"a mapping version with a gap":          {spec: []string{"version: 2", "version: 9", ".sku", ".id"}},
		"a new version of the same reading":     {spec: []string{"version: 2", "version: 3"}},
		"another mapping under a known version": {spec: []string{".sku", ".id"}, fault: "version 2 is known and reads payloads otherwise; mapping versions are immutable: set mapping.version to 3"},
		"another limit under a known version":   {spec: []string{"order:", "limits: {max_rows: 5}\norder:"}, fault: "set mapping.version to 3"},
		"another fingerprint under it":          {spec: []string{"order:", "fingerprint: rows\norder:"}, fault: "set mapping.version to 3"},
		"the version before":                    {spec: []string{"version: 2", "version: 1", ".sku", ".old"}, fault: "version 2 is in force; going back is applying the old program as a new version: set mapping.version to 3"},
		"another connector":                     {spec: []string{"connector: c", "connector: d"}, fault: `known with connector "c"`},
		"another account":                       {spec: []string{"account: A", "account: B"}, fault: `known with account "A"`},
		"another identity":                      {spec: []string{"order:", "identity: {fields: [exportid]}\norder:"}, fault: "known with another identity: its deliveries are named by it"},
		"the route of another feed":             {spec: []string{"/s", "/taken"}, fault: `events with source "/taken" on topic deliveries are those of feed other; a topic and a source belong to one feed`},
		"one of two routes is another feed's":   {spec: []string{"/s", "/taken", "[deliveries]", "[a, deliveries, z]"}, fault: "on topic deliveries are those of feed other"},
		"the route of another tenant":           {spec: []string{"/s", "/theirs"}, fault: "are those of a feed of another tenant"},
		"another tenant's feed of the name":     {spec: []string{"tenant: t1", "tenant: t3"}, fault: "are those of a feed of another tenant"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pool := open(t)
			mustApply(t, pool, parse(t, ".sku", ".old"))
			mustApply(t, pool, parse(t, "version: 1", "version: 2"))
			mustApply(t, pool, parse(t, "feed: f", "feed: other", "/s", "/taken"))
			mustApply(t, pool, parse(t, "tenant: t1", "tenant: t2", "feed: f", "feed: secret", "/s", "/theirs"))
			before := load(t, pool)

			base := strings.Replace(head+tail, "version: 1", "version: 2", 1)
			s, err := feed.ParseYAML("feed.yaml", []byte(strings.NewReplacer(test.spec...).Replace(base)))
			if err != nil {
				t.Fatal(err)
			}
			changed, fault := apply(t, pool, s)
			after := load(t, pool)
			switch {
			case test.fault != "":
				if fault == nil || fault.Reason != offer.ReasonSchemaInvalid || !strings.Contains(fault.Message, test.fault) {
					t.Errorf("got fault %v, want %q", fault, test.fault)
				}
				if fault != nil && strings.Contains(fault.Message, "secret") {
					t.Errorf("the fault tells another tenant's feed: %v", fault)
				}
			case fault != nil:
				t.Fatalf("got fault %v", fault)
			}
			if want := test.fault == "" && !test.same; changed != want {
				t.Errorf("changed %t, want %t", changed, want)
			}
			if !changed {
				if after.Version != before.Version || len(after.Feeds()) != 3 || after.Route("deliveries", "/s").MappingVersion != 2 {
					t.Errorf("what was refused, or the same, moved the registry from version %d to %d", before.Version, after.Version)
				}
				return
			}
			if after.Version != before.Version+1 {
				t.Errorf("got registry version %d, want %d", after.Version, before.Version+1)
			}
			for _, topic := range s.Accepts.Topics {
				f := after.Route(topic, s.Accepts.Source)
				if f == nil || f.Name != "f" || f.MappingVersion != s.Mapping.Version || f.Policy.InvalidRow != s.Policy.InvalidRow || f.ReadingDigest != s.Reading().Digest() {
					t.Errorf("on topic %s: got %+v", topic, f)
				}
			}
			if s.Accepts.Source != "/s" {
				mustApply(t, pool, parse(t, "feed: f", "feed: heir", ".sku", ".x")) // the route that was given up
			}
		})
	}
}

func TestAMappingVersionIsFrozen(t *testing.T) {
	pool := open(t)
	mustApply(t, pool, parse(t))
	mustApply(t, pool, parse(t, "version: 1", "version: 2", ".sku", ".id"))
	var versions []int
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), "SELECT version FROM mapping WHERE tenant = 't1' AND feed = 'f' ORDER BY version")
		if err != nil {
			return err
		}
		versions, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	})
	if err != nil || !slices.Equal(versions, []int{1, 2}) {
		t.Errorf("got versions %v, error %v, want 1 and 2", versions, err)
	}
	for _, statement := range []string{"UPDATE mapping SET version = 3", "DELETE FROM mapping"} {
		err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), statement)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: got %v, want it denied", statement, err)
		}
	}
}

func TestWhatWasChangedBehindTheRegistrysBackIsNotRead(t *testing.T) {
	for name, c := range map[string]struct{ statement, want string }{
		"a mapping": {`UPDATE mapping SET spec = jsonb_set(spec, '{fields,source_record}', '".id"')`, "mapping version 1 does not have the digest"},
		"S_004_19 a tombstone horizon shorter than the longest replay": {`UPDATE feed SET spec = jsonb_set(spec, '{policy,tombstone_horizon}', '"30d"')`,
			"policy.tombstone_horizon: 30d is shorter than dedupe_horizon, 400d"},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := rig.Database(t)
			pool, err := postgres.Open(t.Context(), dsn, 2)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			mustApply(t, pool, parse(t))
			super, err := pgx.Connect(t.Context(), rig.DatabaseAsSuperuser(t, dsn))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = super.Close(t.Context()) }()
			if _, err := super.Exec(t.Context(), c.statement); err != nil {
				t.Fatal(err)
			}
			err = postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
				_, err := feed.Load(t.Context(), tx)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), "feed f of tenant t1: "+c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHorizonsAreTheJanitorsToRead(t *testing.T) {
	pool := open(t)
	mustApply(t, pool, parse(t))
	mustApply(t, pool, parse(t, "feed: f", "feed: g", "/s", "/t", "order:", "policy: {dedupe_horizon: 36h}\norder:"))
	err := postgres.InTx(t.Context(), pool, postgres.Janitor, func(tx pgx.Tx) error {
		got, err := feed.Horizons(t.Context(), tx)
		if want := []feed.Horizon{{"t1", "f", 400 * 24 * time.Hour, 400 * 24 * time.Hour}, {"t1", "g", 36 * time.Hour, 400 * 24 * time.Hour}}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCurrentReadsTheRegistryOnlyWhenItMoved(t *testing.T) {
	pool := open(t)
	current := func(have *feed.Registry) (r *feed.Registry) {
		err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
			r, err = feed.Current(t.Context(), tx, have)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := current(nil)
	if current(first) != first {
		t.Error("read a registry again that had not moved")
	}
	mustApply(t, pool, parse(t))
	second := current(first)
	if second == first || second.Version != first.Version+1 || second.Route("deliveries", "/s") == nil || first.Route("deliveries", "/s") != nil {
		t.Errorf("got %+v after %+v", second, first)
	}
}

// Two feeds want one route; both commands are under way at once. One of them gets it, whatever the order of commits.
func TestTwoAppliesAtOnceAreOneAfterTheOther(t *testing.T) {
	pool := open(t)
	specs := []feed.Spec{parse(t, "feed: f", "feed: a"), parse(t, "feed: f", "feed: b"), parse(t, "feed: f", "feed: a"), parse(t, "feed: f", "feed: b", ".sku", ".id")}
	type answer struct {
		changed bool
		fault   *offer.Fault
		err     error
	}
	answers := make([]answer, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() {
			a := &answers[i]
			a.err = postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
				a.changed, a.fault, err = feed.Apply(t.Context(), tx, s, offer.DeliveryID{1}, appliedAt)
				return err
			})
		})
	}
	wg.Wait()
	changed := 0
	for i, a := range answers {
		if a.err != nil {
			t.Fatalf("spec %d: %v", i, a.err)
		}
		if a.changed {
			changed++
		}
	}
	r := load(t, pool)
	if changed != 1 || len(r.Feeds()) != 1 || r.Version != 2 {
		t.Errorf("%d of %d specs of one route changed the registry, to version %d with %d feeds; want 1, 2, 1", changed, len(specs), r.Version, len(r.Feeds()))
	}
}

func TestWhoMapsHoldsTheRegistry(t *testing.T) {
	pool := open(t)
	ctx := t.Context()
	begin := func() pgx.Tx {
		tx, err := pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL ROLE " + string(postgres.Ingest) + "; SET LOCAL lock_timeout = '100ms'"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	first, second := begin(), begin()
	for _, tx := range []pgx.Tx{first, second} {
		if version, err := feed.LockShared(ctx, tx); err != nil || version != 1 {
			t.Fatalf("got version %d, %v", version, err)
		}
	}
	if _, _, err := feed.Apply(ctx, begin(), parse(t), offer.DeliveryID{1}, appliedAt); !postgres.OutOfReach(err) {
		t.Errorf("a feed was applied while batches were mapped: %v", err)
	}
	for _, tx := range []pgx.Tx{first, second} {
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	third := begin()
	if changed, fault, err := feed.Apply(ctx, third, parse(t), offer.DeliveryID{1}, appliedAt); !changed || fault != nil || err != nil {
		t.Fatalf("got %t, %v, %v", changed, fault, err)
	}
	if _, err := feed.LockShared(ctx, begin()); !postgres.OutOfReach(err) {
		t.Errorf("a batch took the registry that a command was changing: %v", err)
	}
	if err := third.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if version, err := feed.LockShared(ctx, begin()); err != nil || version != 2 {
		t.Errorf("got version %d, %v, want 2", version, err)
	}
}

func TestATenantSeesItsFeedsAlone(t *testing.T) {
	pool := open(t)
	mustApply(t, pool, parse(t, "feed: f", "feed: b"))
	mustApply(t, pool, parse(t, "feed: f", "feed: a", "/s", "/s2", "version: 1", "version: 4"))
	mustApply(t, pool, parse(t, "tenant: t1", "tenant: t2", "/s", "/s3"))
	for tenant, want := range map[string]string{"t1": "a b", "t2": "f", "t3": "", "": ""} {
		var found []feed.Registered
		err := postgres.AsTenant(t.Context(), pool, postgres.Read, tenant, func(tx pgx.Tx) (err error) {
			found, err = feed.List(t.Context(), tx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range found {
			names = append(names, r.Feed)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("tenant %q: got feeds %q, want %q", tenant, got, want)
		}
	}
	err := postgres.AsTenant(t.Context(), pool, postgres.Read, "t1", func(tx pgx.Tx) error {
		r, err := feed.Show(t.Context(), tx, "a")
		if err != nil {
			return err
		}
		want, _ := parse(t, "feed: f", "feed: a", "/s", "/s2", "version: 1", "version: 4").JSON()
		got, _ := r.Spec.JSON()
		if string(got) != string(want) || r.MappingVersion != 4 || r.Order != "observed_at" || r.Source != "/s2" || !r.AppliedAt.Equal(appliedAt) || r.Delivery != [16]byte{1} {
			t.Errorf("got %+v\nspec %s\nwant %s", r, got, want)
		}
		if _, err := feed.Show(t.Context(), tx, "f"); !errors.Is(err, feed.ErrUnknown) {
			t.Errorf("another tenant's feed: got %v, want ErrUnknown", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
