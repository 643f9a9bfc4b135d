package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that goose needs
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

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

// Migrate brings the database of dsn to the newest schema; a second caller waits for the first. The login must be allowed
// to create roles.
func Migrate(ctx context.Context, dsn string) (applied []Migration, err error) {
	err = withProvider(ctx, dsn, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			applied = append(applied, Migration{r.Source.Version, r.Source.Path, true})
		}
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	})
	return applied, err
}

// Migrations lists every step with whether the database of dsn has it.
func Migrations(ctx context.Context, dsn string) (steps []Migration, err error) {
	err = withProvider(ctx, dsn, func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("read the state of the migrations: %w", err)
		}
		for _, s := range status {
			steps = append(steps, Migration{s.Source.Version, s.Source.Path, s.State == goose.StateApplied})
		}
		return nil
	})
	return steps, err
}

// CheckSchema returns an ErrSchema where the database is older or newer than this program, with what to do.
func CheckSchema(ctx context.Context, dsn string) error {
	return withProvider(ctx, dsn, func(p *goose.Provider) error {
		have, err := p.GetDBVersion(ctx)
		if err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
		sources := p.ListSources()
		want := sources[len(sources)-1].Version
		switch {
		case have < want:
			return fmt.Errorf("%w: it is at version %d, this program needs %d: run offerlog migrate up", ErrSchema, have, want)
		case have > want:
			return fmt.Errorf("%w: it is at version %d, this program knows only %d: use the newer offerlog that migrated it", ErrSchema, have, want)
		}
		return nil
	})
}

func withProvider(ctx context.Context, dsn string, f func(*goose.Provider) error) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("open PostgreSQL: %w", err)
	}
	defer func() { _ = db.Close() }()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("open PostgreSQL: %w", err)
	}
	steps, err := fs.Sub(schemas.Postgres, "postgres")
	if err != nil {
		return fmt.Errorf("read the embedded migrations: %w", err)
	}
	// A lock in a table and not in a session: a transaction-mode pooler may stand between.
	locker, err := lock.NewPostgresTableLocker()
	if err != nil {
		return fmt.Errorf("make the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, steps, goose.WithTableName("schema_version"), goose.WithLocker(locker),
		goose.WithExcludeNames([]string{"schema.sql"}), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read the embedded migrations: %w", err)
	}
	return f(p)
}
