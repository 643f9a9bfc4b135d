package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/schemas"
)

// migrations lists every step that this program knows, with whether the database has it, and what else the database has.
// It only reads, so any login of offerlog can do it.
func migrations(ctx context.Context, pool *pgxpool.Pool) (steps []postgres.Migration, unknown []int64, err error) {
	applied, err := appliedVersions(ctx, pool)
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema's version: %w", err)
	}
	files, err := fs.Glob(schemas.Postgres, "postgres/[0-9]*_*.sql")
	if err != nil {
		return nil, nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	for _, file := range files {
		name := path.Base(file)
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("read the embedded migrations: %w", err)
		}
		steps = append(steps, postgres.Migration{Version: version, Name: name, Applied: applied[version]})
		delete(applied, version)
	}
	delete(applied, 0) // goose's mark of an empty database
	return steps, slices.Sorted(maps.Keys(applied)), nil
}

func appliedVersions(ctx context.Context, pool *pgxpool.Pool) (map[int64]bool, error) {
	applied := map[int64]bool{}
	rows, err := pool.Query(ctx, "SELECT version_id FROM schema_version WHERE is_applied")
	if err == nil {
		var version int64
		_, err = pgx.ForEachRow(rows, []any{&version}, func() error { applied[version] = true; return nil })
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "42P01": // there is no such table
			return applied, nil
		case "42501":
			return nil, &exitError{exitNotAllowed, "role_missing", "run as the login that migrated: GRANT SELECT ON schema_version TO " +
				pgx.Identifier{pool.Config().ConnConfig.User}.Sanitize(), err}
		}
	}
	return applied, err
}

// checkSchema returns a postgres.ErrSchema where the database is older or newer than this program.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	steps, unknown, err := migrations(ctx, pool)
	if err != nil {
		return err
	}
	want := steps[len(steps)-1].Version
	if len(unknown) > 0 {
		return fmt.Errorf("%w: it is at version %d, this program knows only %d: use the newer offerlog that migrated it",
			postgres.ErrSchema, unknown[len(unknown)-1], want)
	}
	if missing := slices.IndexFunc(steps, func(m postgres.Migration) bool { return !m.Applied }); missing >= 0 {
		return fmt.Errorf("%w: it lacks version %d, this program needs all up to %d: run offerlog migrate up", postgres.ErrSchema, steps[missing].Version, want)
	}
	return nil
}
