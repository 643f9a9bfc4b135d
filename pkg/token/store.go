package token

import (
	"context"
	"crypto/subtle"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed create.sql
	createSQL string
	//go:embed revoke.sql
	revokeSQL string
	//go:embed list.sql
	listSQL string
	//go:embed identify.sql
	identifySQL string
)

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Create stores the token of a valid grant on the word of the command delivery. What cannot be is a fault and changes nothing.
func Create(ctx context.Context, tx pgx.Tx, tenant string, g Grant, delivery offer.DeliveryID, at time.Time) (*offer.Fault, error) {
	digest, err := g.digest()
	if err != nil {
		return nil, err
	}
	if g.ExpiresAt != nil && !g.ExpiresAt.After(at) {
		return refused("expires_at", "the token had expired before it was made: make another"), nil
	}
	var id uuid.UUID
	err = tx.QueryRow(ctx, createSQL, tenant, ID(digest), g.Name, g.Role, digest[:], uuid.UUID(delivery), at, g.ExpiresAt).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return refused("sha256", "a token with this digest is known already: make another"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("create a token of tenant %s: %w", tenant, err)
	}
	return nil, nil
}

// Revoke ends a token on the word of the command delivery; one that is ended already stays as it is. A token that the tenant
// does not have is a fault.
func Revoke(ctx context.Context, tx pgx.Tx, tenant string, r Revocation, delivery offer.DeliveryID, at time.Time) (*offer.Fault, error) {
	var id uuid.UUID
	err := tx.QueryRow(ctx, revokeSQL, tenant, r.Token, uuid.UUID(delivery), at).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return refused("token", "the tenant has no token %s: run offerlog token list", r.Token), nil
	}
	if err != nil {
		return nil, fmt.Errorf("revoke token %s of tenant %s: %w", r.Token, tenant, err)
	}
	return nil, nil
}

func refused(path, format string, args ...any) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonSchemaInvalid, Path: path, Message: fmt.Sprintf(format, args...)}
}

// A Listed is a token as its tenant's auditors see it.
type Listed struct {
	ID        uuid.UUID  `json:"id"`
	Name      string     `json:"name"`
	Role      Role       `json:"role"`
	State     string     `json:"state"` // active | expired | revoked
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// List returns the tokens of the tenant that q's transaction reads for (postgres.AsTenant, role Audit), the oldest first, and
// what each of them is at an instant.
func List(ctx context.Context, q Querier, at time.Time) ([]Listed, error) {
	rows, err := q.Query(ctx, listSQL)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Listed, err error) {
		err = row.Scan(&l.ID, &l.Name, &l.Role, &l.CreatedAt, &l.ExpiresAt, &l.RevokedAt)
		l.State = state(l.ExpiresAt, l.RevokedAt, at)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return list, nil
}

const active = "active"

func state(expires, revoked *time.Time, at time.Time) string {
	switch {
	case revoked != nil:
		return "revoked"
	case expires != nil && !expires.After(at):
		return "expired"
	}
	return active
}

// A Bearer is who a token speaks for.
type Bearer struct {
	Tenant string
	Role   Role
	Token  uuid.UUID // the token's id
}

// ErrRefused reports a token that is nobody's, has expired or was revoked. Which of them is nobody's to know.
var ErrRefused = errors.New("the token is not valid")

// Identify finds whose a token is at an instant: ErrRefused where it is nobody's. q's transaction has role Read; the tenant
// need not be set, since the token says it.
func Identify(ctx context.Context, q Querier, t Token, at time.Time) (Bearer, error) {
	digest := t.Digest()
	rows, err := q.Query(ctx, identifySQL, digest[:])
	if err != nil {
		return Bearer{}, fmt.Errorf("identify a token: %w", err)
	}
	var (
		b                Bearer
		found            bool
		stored           []byte
		expires, revoked *time.Time
	)
	if _, err := pgx.ForEachRow(rows, []any{&b.Tenant, &b.Token, &b.Role, &stored, &expires, &revoked}, func() error {
		// The index has found equal digests; that they are equal is not left to how it compares.
		found = subtle.ConstantTimeCompare(stored, digest[:]) == 1 && state(expires, revoked, at) == active
		return nil
	}); err != nil {
		return Bearer{}, fmt.Errorf("identify a token: %w", err)
	}
	if !found {
		return Bearer{}, ErrRefused
	}
	return b, nil
}
