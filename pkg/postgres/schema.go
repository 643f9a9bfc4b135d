package postgres

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

	"github.com/offerlog/offerlog/schemas"
)

// ErrSchema reports a database whose schema this program does not fit.
var ErrSchema = errors.New("the database schema does not fit")

// A Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Migrations lists every step that this program knows, with whether the database has it, and what else the database has.
// It only reads, so any login can do it.
func Migrations(ctx context.Context, q Querier) (steps []Migration, unknown []int64, err error) {
	applied, err := appliedVersions(ctx, q)
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
		steps = append(steps, Migration{version, name, applied[version]})
		delete(applied, version)
	}
	delete(applied, 0) // goose's mark of an empty database
	return steps, slices.Sorted(maps.Keys(applied)), nil
}

func appliedVersions(ctx context.Context, q Querier) (map[int64]bool, error) {
	applied := map[int64]bool{}
	rows, err := q.Query(ctx, "SELECT version_id FROM schema_version WHERE is_applied")
	if err == nil {
		var version int64
		_, err = pgx.ForEachRow(rows, []any{&version}, func() error { applied[version] = true; return nil })
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" {
		return applied, nil // there is no such table: nothing was ever migrated
	}
	return applied, err
}

// CheckSchema returns an ErrSchema where the database is older or newer than this program, with what to do.
func CheckSchema(ctx context.Context, q Querier) error {
	steps, unknown, err := Migrations(ctx, q)
	if err != nil {
		return err
	}
	want := steps[len(steps)-1].Version
	if len(unknown) > 0 {
		return fmt.Errorf("%w: it is at version %d, this program knows only %d: use the newer offerlog that migrated it", ErrSchema, unknown[len(unknown)-1], want)
	}
	if missing := slices.IndexFunc(steps, func(m Migration) bool { return !m.Applied }); missing >= 0 {
		return fmt.Errorf("%w: it lacks version %d, this program needs all up to %d: run offerlog migrate up", ErrSchema, steps[missing].Version, want)
	}
	return nil
}
