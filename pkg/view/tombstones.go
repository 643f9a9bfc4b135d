package view

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed tombstones.sql
var tombstonesSQL string

// A Horizon is up to when the deletions of a feed are not remembered any longer.
type Horizon struct {
	Tenant, Feed string
	Before       time.Time // they were recorded
}

// Tombstones returns those of horizons that have passed deletions which are still shown. It runs as the janitor.
func Tombstones(ctx context.Context, q Querier, horizons []Horizon) ([]Horizon, error) {
	var (
		tenants, feeds []string
		before         []time.Time
	)
	for _, h := range horizons {
		tenants, feeds, before = append(tenants, h.Tenant), append(feeds, h.Feed), append(before, h.Before)
	}
	rows, err := q.Query(ctx, tombstonesSQL, tenants, feeds, before)
	if err != nil {
		return nil, fmt.Errorf("find old deletions: %w", err)
	}
	passed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Horizon])
	if err != nil {
		return nil, fmt.Errorf("find old deletions: %w", err)
	}
	return passed, nil
}
