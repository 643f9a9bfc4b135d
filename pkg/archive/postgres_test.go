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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// tables are the two of this package as its statements need them.
const tables = `
CREATE TABLE tenant_key (
  tenant text, key_id text, wrapped bytea, created_at timestamptz NOT NULL, destroyed_at timestamptz,
  PRIMARY KEY (tenant, key_id)
);
CREATE TABLE artifact (
  tenant text, object text, topic_id uuid, partition int, first bigint, last bigint, key_id text, length bigint,
  state text, offsets bigint[], items int[], sums bytea[], lengths bigint[],
  PRIMARY KEY (tenant, object)
)`

// database is a pool on a schema of its own.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(rig.PostgresServer(t))
	if err != nil {
		t.Fatal(err)
	}
	schema := pgx.Identifier{"archive_" + strings.ToLower(t.Name())}.Sanitize()
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	for _, sql := range []string{"DROP SCHEMA IF EXISTS " + schema + " CASCADE", "CREATE SCHEMA " + schema, tables} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
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
