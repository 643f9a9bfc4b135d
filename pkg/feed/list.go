package feed

import (
	"bytes"
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/mapping"
)

var (
	//go:embed list.sql
	listSQL string
	//go:embed by_source.sql
	bySourceSQL string
	//go:embed reading.sql
	readingSQL string
)

// ErrUnknown reports a feed that the tenant does not have.
var ErrUnknown = errors.New("no such feed")

// A Registered is a feed as its operator sees it.
type Registered struct {
	Tenant         string    `json:"tenant"`
	Feed           string    `json:"feed"`
	MappingVersion int       `json:"mapping_version"` // the one in force
	Topics         []string  `json:"topics"`
	Source         string    `json:"source"`
	Order          string    `json:"order"`
	AppliedAt      time.Time `json:"applied_at"`
	Delivery       uuid.UUID `json:"delivery"` // the command that applied it
	Spec           Spec      `json:"spec"`
}

// List returns the feeds of the tenant that q's transaction reads for (postgres.AsTenant, role Read), by name.
func List(ctx context.Context, q Querier) ([]Registered, error) { return list(ctx, q, listSQL, "") }

// BySource returns the feeds of that tenant that expect events with one of sources, compared byte by byte.
func BySource(ctx context.Context, q Querier, sources []string) ([]Registered, error) {
	return list(ctx, q, bySourceSQL, sources)
}

// Show returns one feed of that tenant, or an ErrUnknown.
func Show(ctx context.Context, q Querier, name string) (Registered, error) {
	found, err := list(ctx, q, listSQL, name)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: %q: offerlog feed list names those of the tenant", ErrUnknown, name)
	}
	if err != nil {
		return Registered{}, err
	}
	return found[0], nil
}

// ReadingOf returns how a mapping version of a tenant's feed reads payloads, or an ErrUnknown.
func ReadingOf(ctx context.Context, tx pgx.Tx, tenant, name string, version int) (spec mapping.Spec, err error) {
	var b, digest []byte
	err = tx.QueryRow(ctx, readingSQL, tenant, name, version).Scan(&b, &digest)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrUnknown
	}
	if err == nil {
		err = json.Unmarshal(b, &spec)
	}
	if have := spec.Digest(); err == nil && !bytes.Equal(have[:], digest) {
		err = errors.New("it does not have the digest that it was applied with")
	}
	if err != nil {
		return spec, fmt.Errorf("read mapping version %d of feed %s: %w", version, name, err)
	}
	return spec, nil
}

func list(ctx context.Context, q Querier, pick string, arg any) ([]Registered, error) {
	rows, err := q.Query(ctx, pick, arg)
	if err != nil {
		return nil, fmt.Errorf("list feeds: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Registered, err error) {
		err = row.Scan(&r.Tenant, &r.Feed, &r.MappingVersion, &r.Topics, &r.Source, &r.AppliedAt, &r.Delivery, &r.Spec)
		r.Order = r.Spec.Order
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list feeds: %w", err)
	}
	return found, nil
}
