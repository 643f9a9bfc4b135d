package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that goose needs
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/offerlog/offerlog/schemas"
)

// Migrate brings the database of dsn to the newest schema, and returns the steps it took; a second caller waits for the
// first. The login must be allowed to create roles.
func Migrate(ctx context.Context, dsn string) (applied []Migration, err error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	defer func() { _ = db.Close() }()
	if err := db.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	steps, err := fs.Sub(schemas.Postgres, "postgres")
	if err != nil {
		return nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	// A lock in a table and not in a session: a transaction-mode pooler may stand between.
	locker, err := lock.NewPostgresTableLocker()
	if err != nil {
		return nil, fmt.Errorf("make the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, steps, goose.WithTableName("schema_version"), goose.WithLocker(locker),
		goose.WithExcludeNames([]string{"schema.sql"}), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	results, err := p.Up(ctx)
	for _, r := range results {
		applied = append(applied, Migration{r.Source.Version, r.Source.Path, true})
	}
	if err != nil {
		return applied, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}
