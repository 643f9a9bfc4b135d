package history

import (
	"context"
	_ "embed" // for the statement
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed due.sql
var dueSQL string

// Due returns, of each of the tenants of which one has come that no decision tells of, the latest moment at which claims begin
// to count or end: in nanoseconds since 1970 UTC. It costs some probes a tenant, however long the history.
func Due(ctx context.Context, q Querier, tenants []string) (moments map[string]int64, err error) {
	rows, err := q.Query(ctx, dueSQL, tenants)
	if err != nil {
		return nil, fmt.Errorf("look for claims that have become due: %w", err)
	}
	var (
		tenant string
		moment int64
	)
	moments = map[string]int64{}
	if _, err := pgx.ForEachRow(rows, []any{&tenant, &moment}, func() error { moments[tenant] = moment; return nil }); err != nil {
		return nil, fmt.Errorf("look for claims that have become due: %w", err)
	}
	return moments, nil
}
