package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// database is a pool on a migrated database, for what no role alone may do.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), rig.DatabaseAsSuperuser(t, rig.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func mustCurrent(t *testing.T, keys *archive.PostgresKeys, tenant string) archive.Key {
	t.Helper()
	key, err := keys.Current(t.Context(), tenant)
	if err != nil {
		t.Fatalf("current key of %s: %v", tenant, err)
	}
	return key
}

func TestATenantsFirstKeyIsMadeOnceByManyProcesses(t *testing.T) {
	pool := database(t)
	got := make([]archive.Key, 8)
	errs := make([]error, len(got))
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { // each with a cache of its own, as in a process of its own
			got[i], errs[i] = archive.NewPostgresKeys(pool, archive.OpenKeyring(master)).Current(t.Context(), "demo")
		})
	}
	wg.Wait()
	for i, key := range got {
		if errs[i] != nil || key.ID != "k1" || len(key.Secret) != 32 || !bytes.Equal(key.Secret, got[0].Secret) {
			t.Errorf("process %d: got %s, %v, want the one key k1", i, key.ID, errs[i])
		}
	}
	keys := archive.NewPostgresKeys(pool, archive.OpenKeyring(master))
	if other := mustCurrent(t, keys, "acme"); other.ID != "k1" || bytes.Equal(other.Secret, got[0].Secret) {
		t.Error("another tenant: want a key k1 of its own")
	}
	if _, err := keys.ByID(t.Context(), "demo", "k9"); !errors.Is(err, archive.ErrNoKey) {
		t.Errorf("a key that was never made: got %v, want ErrNoKey", err)
	}
	foreign := archive.NewPostgresKeys(pool, archive.OpenKeyring(secret))
	if _, err := foreign.Current(t.Context(), "demo"); err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("another master key: got %v, want it named", err)
	}
}

func TestADestroyedKeyOpensNothingAfterAMinute(t *testing.T) {
	pool := database(t)
	keys := archive.NewPostgresKeys(pool, archive.OpenKeyring(master))
	now := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	keys.Now = func() time.Time { return now }
	a := archive.New(&memory{}, keys)
	ref := mustWrite(t, a, pack())

	mustExec(t, pool, `UPDATE tenant_key SET wrapped = NULL, destroyed_at = now() WHERE tenant = 'demo'`)
	now = now.Add(time.Minute)
	var shredded *archive.ShreddedError
	if _, err := a.Read(t.Context(), "demo", ref, 10, 0); !errors.As(err, &shredded) || shredded.Code() != "artifact_shredded" {
		t.Errorf("got %v, want artifact_shredded", err)
	}
	p := pack()
	p.Last++
	if fresh := mustWrite(t, a, p); fresh.KeyID != "k2" {
		t.Errorf("evidence that comes later: got key %s, want k2", fresh.KeyID)
	}
}

func TestAnUnwrappedKeyIsKeptForLessThanAMinute(t *testing.T) {
	pool := database(t)
	keys := archive.NewPostgresKeys(pool, archive.OpenKeyring(master))
	now := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	keys.Now = func() time.Time { return now }
	first := mustCurrent(t, keys, "demo")
	for n := 2; n <= 10; n++ { // keys that a rotation made; the tenth is the newest, though k10 < k9 as text
		id := fmt.Sprintf("k%d", n)
		wrapped, err := archive.OpenKeyring(master).Wrap("demo", id, secret)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, pool, `INSERT INTO tenant_key (tenant, key_id, wrapped, created_at) VALUES ('demo', $1, $2, now())`, id, wrapped)
	}
	now = now.Add(time.Minute - time.Nanosecond)
	if got := mustCurrent(t, keys, "demo"); got.ID != first.ID {
		t.Errorf("within a minute: got %s, want the key in memory", got.ID)
	}
	now = now.Add(time.Nanosecond)
	if got := mustCurrent(t, keys, "demo"); got.ID != "k10" || !bytes.Equal(got.Secret, secret) {
		t.Errorf("after a minute: got %s, want k10", got.ID)
	}
	if got, err := keys.ByID(t.Context(), "demo", "k1"); err != nil || !bytes.Equal(got.Secret, first.Secret) {
		t.Errorf("the first key: got %v, want it as before", err)
	}
}

func TestRecordWritesOneRowForEachObject(t *testing.T) {
	pool := database(t)
	a := archive.New(&memory{}, &keys{"k1"})
	second := pack()
	second.Tenant, second.Entries = "acme", second.Entries[1:3]
	objects := []archive.Stored{{Pack: pack()}, {Pack: second}}
	for i := range objects {
		objects[i].Ref = mustWrite(t, a, objects[i].Pack)
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := archive.Record(t.Context(), tx, nil); err != nil {
			return err
		}
		return archive.Record(t.Context(), tx, objects)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		var (
			p                archive.Pack
			ref              archive.Ref
			state            string
			offsets, lengths []int64
			items            []int
			sums             [][]byte
		)
		err := pool.QueryRow(t.Context(), `SELECT tenant, object, topic_id, partition, first, last, key_id, length, state,
			offsets, items, sums, lengths FROM artifact WHERE tenant = $1`, o.Pack.Tenant).Scan(
			&p.Tenant, &ref.Name, &p.TopicID, &p.Partition, &p.First, &p.Last, &ref.KeyID, &ref.Length, &state,
			&offsets, &items, &sums, &lengths)
		if err != nil {
			t.Fatal(err)
		}
		if p.Tenant != o.Pack.Tenant || p.TopicID != o.Pack.TopicID || p.Partition != o.Pack.Partition || p.First != o.Pack.First ||
			p.Last != o.Pack.Last || ref != o.Ref || state != "stored" || len(offsets) != len(o.Pack.Entries) {
			t.Errorf("got %+v %+v %s with offsets %v, want %+v", p, ref, state, offsets, o)
			continue
		}
		for i, e := range o.Pack.Entries {
			if offsets[i] != e.Offset || items[i] != e.Item || !bytes.Equal(sums[i], e.Sum[:]) || lengths[i] != int64(len(e.Payload)) {
				t.Errorf("entry %d: got %d %d %x %d, want %+v", i, offsets[i], items[i], sums[i], lengths[i], e)
			}
		}
	}
}

// Each key is wrapped again once, whatever happens between two of them, and both are opened all the time.
func TestRewrapGoesOnWhereItStopped(t *testing.T) {
	pool := database(t)
	fresh := bytes.Repeat([]byte{9}, 32)
	old := archive.NewPostgresKeys(pool, archive.OpenKeyring(master))
	secrets := map[string][]byte{}
	for _, tenant := range []string{"a", "b", "c"} {
		secrets[tenant] = mustCurrent(t, old, tenant).Secret
	}
	mustExec(t, pool, "UPDATE tenant_key SET wrapped = NULL, destroyed_at = now() WHERE tenant = 'c'")
	both := archive.OpenKeyring(fresh, master)
	stopping := &stopAfter{Querier: pool, updates: 1}
	if n, err := archive.NewPostgresKeys(stopping, both).Rewrap(t.Context()); err == nil || n != 1 {
		t.Fatalf("got %d keys and %v, want one and an error", n, err)
	}
	open := func(tenant string, ring *archive.Keyring) error {
		key, err := archive.NewPostgresKeys(pool, ring).ByID(t.Context(), tenant, "k1")
		if err == nil && !bytes.Equal(key.Secret, secrets[tenant]) {
			err = errors.New("another key")
		}
		return err
	}
	if err := errors.Join(open("a", both), open("b", both), open("a", archive.OpenKeyring(fresh)), open("b", archive.OpenKeyring(master))); err != nil {
		t.Error(err)
	}
	for _, want := range []int{1, 0} {
		if n, err := archive.NewPostgresKeys(pool, both).Rewrap(t.Context()); err != nil || n != want {
			t.Errorf("got %d keys and %v, want %d", n, err, want)
		}
	}
	if err := errors.Join(open("a", archive.OpenKeyring(fresh)), open("b", archive.OpenKeyring(fresh))); err != nil {
		t.Error(err)
	}
	if _, err := archive.NewPostgresKeys(pool, archive.OpenKeyring(fresh)).Rewrap(t.Context()); err != nil {
		t.Errorf("without the old key: %v", err)
	}
	mustCurrent(t, old, "d")
	if n, err := archive.NewPostgresKeys(pool, archive.OpenKeyring(fresh)).Rewrap(t.Context()); err == nil || n != 0 {
		t.Errorf("a key that no master key opens: got %d keys and %v", n, err)
	}
}

// stopAfter fails after so many updates.
type stopAfter struct {
	archive.Querier
	updates int
}

func (s *stopAfter) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if s.updates == 0 {
		return pgconn.CommandTag{}, errStore
	}
	s.updates--
	return s.Querier.Exec(ctx, sql, args...)
}

func TestRetireAndShredConcernOneTenant(t *testing.T) {
	pool := database(t)
	store := &memory{}
	write := func(tenant string, first int64) archive.Stored {
		t.Helper()
		p := pack()
		p.Tenant, p.First = tenant, first
		ks := archive.NewPostgresKeys(pool, archive.OpenKeyring(master))
		return archive.Stored{Pack: p, Ref: mustWrite(t, archive.New(store, ks), p)}
	}
	tx := func(f func(tx pgx.Tx) error) error { return pgx.BeginFunc(t.Context(), pool, f) }
	record := func(objects ...archive.Stored) error {
		return tx(func(tx pgx.Tx) error { return archive.Record(t.Context(), tx, objects) })
	}
	mine, other := write("demo", 1), write("acme", 1)
	if err := record(mine, other); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for tenant, want := range map[string]string{"demo": "k1", "nobody": ""} {
		err := tx(func(tx pgx.Tx) error {
			id, err := archive.Retire(t.Context(), tx, tenant, at)
			if id != want {
				t.Errorf("tenant %s: retired %q, want %q", tenant, id, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	fresh, before := write("demo", 2), write("demo", 3)
	if mine.Ref.KeyID != "k1" || fresh.Ref.KeyID != "k2" || other.Ref.KeyID != "k1" {
		t.Errorf("got keys %s, then %s, and %s of the other tenant", mine.Ref.KeyID, fresh.Ref.KeyID, other.Ref.KeyID)
	}
	if err := record(fresh); err != nil {
		t.Fatal(err)
	}
	receipt := uuid.New()
	err := tx(func(tx pgx.Tx) error {
		keys, objects, err := archive.Shred(t.Context(), tx, "demo", receipt, at)
		if keys != 2 || objects != 2 {
			t.Errorf("got %d keys and %d objects, want 2 and 2", keys, objects)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var shredded *archive.ShreddedError
	if err := record(before); !errors.As(err, &shredded) || shredded.Tenant != "demo" || shredded.KeyID != "k2" {
		t.Errorf("an object that was sealed before: got %v, want it refused", err)
	}
	again := write("demo", 3) // the attempt that comes next finds what nobody can open
	if again.Ref.KeyID != "k3" || again.Ref.Reused {
		t.Errorf("got %+v, want the object anew under k3", again.Ref)
	}
	if err := record(again); err != nil {
		t.Error(err)
	}
	a := archive.New(store, archive.NewPostgresKeys(pool, archive.OpenKeyring(master)))
	for _, o := range []archive.Stored{mine, fresh} {
		if _, err := a.Verify(t.Context(), "demo", o.Ref); !errors.As(err, &shredded) {
			t.Errorf("got %v, want the object shredded", err)
		}
	}
	for _, o := range []archive.Stored{other, again} {
		if _, err := a.Verify(t.Context(), o.Pack.Tenant, o.Ref); err != nil {
			t.Error(err)
		}
	}
	var states string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(format('%s %s %s %s', tenant, first, state, pruning = $1), ', ' ORDER BY tenant, first) FROM artifact`, receipt).Scan(&states); err != nil {
		t.Fatal(err)
	}
	if want := "acme 1 stored , demo 1 shredded t, demo 2 shredded t, demo 3 stored "; states != want {
		t.Errorf("got %q, want %q", states, want)
	}
}
