package feed

import (
	"context"
	_ "embed" // for the statement
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed list.sql
	listSQL string
	//go:embed by_source.sql
	bySourceSQL string
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
