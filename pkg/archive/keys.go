package archive

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/fault"
)

var (
	//go:embed wrapped_after.sql
	wrappedAfterSQL string
	//go:embed rewrap.sql
	rewrapSQL string
	//go:embed retire.sql
	retireSQL string
	//go:embed shred_keys.sql
	shredKeysSQL string
	//go:embed shred_objects.sql
	shredObjectsSQL string
)

// Rewrap seals the keys of all tenants under the ring's first master key, those that another one of the ring seals, and
// returns how many those were. Each key is done by itself, whatever happens to the rest: readers whose ring holds both master
// keys open all of them at any moment, and after a crash the rest is done by the next call.
func (k *PostgresKeys) Rewrap(ctx context.Context) (done int, err error) {
	var (
		tenant, id string
		wrapped    []byte
	)
	for {
		err := k.db.QueryRow(ctx, wrappedAfterSQL, tenant, id).Scan(&tenant, &id, &wrapped)
		if errors.Is(err, pgx.ErrNoRows) {
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("wrap keys again: %w", err)
		}
		secret, by, err := k.ring.unwrap(tenant, id, wrapped)
		if err != nil {
			return done, fmt.Errorf("wrap key %s of tenant %q again: %w", id, tenant, err)
		}
		if by == 0 {
			continue
		}
		again, err := k.ring.Wrap(tenant, id, secret)
		if err != nil {
			return done, err
		}
		if _, err := k.db.Exec(ctx, rewrapSQL, tenant, id, wrapped, again); err != nil {
			return done, fmt.Errorf("wrap key %s of tenant %q again: %w", id, tenant, err)
		}
		done++
		fault.Point("keys.rewrap_half")
	}
}

// Retire lets a tenant's next object be sealed under a new key, and returns the id of the one that is retired: "" where the
// tenant has none in use. What was sealed stays readable.
func Retire(ctx context.Context, tx pgx.Tx, tenant string, at time.Time) (id string, err error) {
	err = tx.QueryRow(ctx, retireSQL, tenant, at).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("retire the key of tenant %q: %w", tenant, err)
	}
	return id, nil
}

// Shred destroys the keys of a tenant, so that nothing it has in the archive can ever be read again, and returns how many keys
// and objects those are. Their rows stay, with names and digests, and name the receipt.
func Shred(ctx context.Context, tx pgx.Tx, tenant string, receipt uuid.UUID, at time.Time) (keys, objects int64, err error) {
	tag, err := tx.Exec(ctx, shredKeysSQL, tenant, at, receipt)
	if err == nil {
		keys = tag.RowsAffected()
		tag, err = tx.Exec(ctx, shredObjectsSQL, tenant, receipt)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("shred the evidence of tenant %q: %w", tenant, err)
	}
	return keys, tag.RowsAffected(), nil
}
