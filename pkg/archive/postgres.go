package archive

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed newest_key.sql
	newestKeySQL string
	//go:embed key_by_id.sql
	keyByIDSQL string
	//go:embed create_key.sql
	createKeySQL string
	//go:embed destroyed.sql
	destroyedSQL string
	//go:embed record.sql
	recordSQL string
)

// keyTTL is how long an unwrapped key stays in memory: how long a key's destruction may take to be felt.
const keyTTL = time.Minute

// A Querier is a pool, a connection or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// PostgresKeys is a KeySource over the table tenant_key. A tenant's first key is made when it is first asked for.
type PostgresKeys struct {
	// Now is the clock; time.Now where it is nil.
	Now func() time.Time

	db   Querier
	ring *Keyring

	mu     sync.Mutex
	cached map[cacheKey]cachedKey
}

type cacheKey struct{ tenant, id string } // id "" is the current key

type cachedKey struct {
	key   Key
	until time.Time
}

// NewPostgresKeys returns the keys of db, wrapped by ring.
func NewPostgresKeys(db Querier, ring *Keyring) *PostgresKeys {
	return &PostgresKeys{db: db, ring: ring, cached: map[cacheKey]cachedKey{}}
}

// Current implements KeySource: the newest key, or a new one where there is none or the newest was retired or destroyed.
func (k *PostgresKeys) Current(ctx context.Context, tenant string) (Key, error) {
	if key, ok := k.recall(tenant, ""); ok {
		return key, nil
	}
	key, err := k.current(ctx, tenant)
	if err != nil {
		return Key{}, fmt.Errorf("find current key of tenant %q: %w", tenant, err)
	}
	k.keep(tenant, "", key)
	return key, nil
}

func (k *PostgresKeys) current(ctx context.Context, tenant string) (Key, error) {
	newest, usable := "k0", false
	err := k.db.QueryRow(ctx, newestKeySQL, tenant).Scan(&newest, &usable)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Key{}, err
	}
	if usable {
		return k.load(ctx, tenant, newest)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(newest, "k"))
	if err != nil {
		return Key{}, fmt.Errorf("key id %q: want k and a number", newest)
	}
	id := "k" + strconv.Itoa(n+1)
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	wrapped, err := k.ring.Wrap(tenant, id, secret)
	if err != nil {
		return Key{}, err
	}
	if _, err := k.db.Exec(ctx, createKeySQL, tenant, id, wrapped); err != nil {
		return Key{}, err
	}
	return k.load(ctx, tenant, id)
}

// ByID implements KeySource.
func (k *PostgresKeys) ByID(ctx context.Context, tenant, id string) (Key, error) {
	if key, ok := k.recall(tenant, id); ok {
		return key, nil
	}
	key, err := k.load(ctx, tenant, id)
	if err != nil {
		return Key{}, fmt.Errorf("find key %s of tenant %q: %w", id, tenant, err)
	}
	k.keep(tenant, id, key)
	return key, nil
}

func (k *PostgresKeys) load(ctx context.Context, tenant, id string) (Key, error) {
	var (
		key       = Key{ID: id}
		wrapped   []byte
		destroyed bool
	)
	err := k.db.QueryRow(ctx, keyByIDSQL, tenant, id).Scan(&wrapped, &destroyed)
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, ErrNoKey
	}
	if err != nil {
		return Key{}, err
	}
	if destroyed {
		return Key{}, &ShreddedError{tenant, key.ID}
	}
	key.Secret, err = k.ring.Unwrap(tenant, key.ID, wrapped)
	return key, err
}

func (k *PostgresKeys) recall(tenant, id string) (Key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.cached[cacheKey{tenant, id}]
	return c.key, ok && k.now().Before(c.until)
}

// keep also forgets what is over, so that no secret stays in memory for good.
func (k *PostgresKeys) keep(tenant, id string, key Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	for ck, c := range k.cached {
		if !now.Before(c.until) {
			delete(k.cached, ck)
		}
	}
	k.cached[cacheKey{tenant, id}] = cachedKey{key, now.Add(keyTTL)}
}

// Forget implements KeySource.
func (k *PostgresKeys) Forget(tenant string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ck := range k.cached {
		if ck.tenant == tenant {
			delete(k.cached, ck)
		}
	}
}

func (k *PostgresKeys) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// Stored is an archived pack and where it is: one row of table artifact.
type Stored struct {
	Pack *Pack
	Ref  Ref
}

// Record inserts one artifact row for each object, all in one statement, in the transaction whose rows refer to them. An object
// that was sealed under a key which has been destroyed since is a *ShreddedError: it is to be written again, under a key that
// the archive does not remember. The transaction keeps commands, which destroy keys, from coming between.
func Record(ctx context.Context, tx pgx.Tx, objects []Stored) error {
	if len(objects) == 0 {
		return nil
	}
	var (
		tenants, names, keys []string
		topics               [][16]byte
		partitions           []int32
		firsts, lasts, sizes []int64

		numbers, items   []int32
		offsets, lengths []int64
		sums             [][]byte
	)
	for i, o := range objects {
		p := o.Pack
		tenants, names, keys = append(tenants, p.Tenant), append(names, o.Ref.Name), append(keys, o.Ref.KeyID)
		topics, partitions = append(topics, p.TopicID), append(partitions, p.Partition)
		firsts, lasts, sizes = append(firsts, p.First), append(lasts, p.Last), append(sizes, o.Ref.Length)
		for _, e := range p.Entries {
			numbers, items = append(numbers, int32(i+1)), append(items, int32(e.Item)) //nolint:gosec // bounded by Pack.check
			offsets, lengths = append(offsets, e.Offset), append(lengths, e.size())
			sums = append(sums, e.Sum[:])
		}
	}
	var lost ShreddedError
	err := tx.QueryRow(ctx, destroyedSQL, tenants, keys).Scan(&lost.Tenant, &lost.KeyID)
	if err == nil {
		return fmt.Errorf("record %d artifacts: %w", len(objects), &lost)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("record %d artifacts: %w", len(objects), err)
	}
	_, err = tx.Exec(ctx, recordSQL,
		tenants, names, topics, partitions, firsts, lasts, keys, sizes,
		numbers, offsets, items, sums, lengths)
	if err != nil {
		return fmt.Errorf("record %d artifacts: %w", len(objects), err)
	}
	return nil
}
