package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/postgres"
)

func (a *app) migrateCommand() *cobra.Command {
	var login string
	up := &cobra.Command{
		Use:   "up",
		Short: "Apply what is missing; the login must be allowed to create roles",
		Long: "Applies what the database lacks. The login owns the database and has CREATEROLE, or is a superuser; it becomes a member of\n" +
			"the role that owns the tables, so no row-level security protects tenants from it.\n" +
			"The programs are to run under a second login, which --grant-to lets take every role of offerlog and nothing else. Make it first:\n" +
			"  CREATE ROLE offerlog_app LOGIN PASSWORD '...' NOSUPERUSER NOBYPASSRLS",
		Example: "  offerlog migrate up --postgres postgres://migrator@localhost/offerlog --grant-to offerlog_app\n  offerlog migrate up --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.needPostgres(); err != nil {
				return err
			}
			applied, err := postgres.Migrate(cmd.Context(), a.settings.Postgres)
			if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42501" {
				return &exitError{exitNotAllowed, "may_not_migrate", "use a login that owns the database and has CREATEROLE, or a superuser", err}
			}
			if err != nil {
				return err
			}
			if login != "" {
				if err := grantRoles(cmd.Context(), a.settings.Postgres, login); err != nil {
					return err
				}
			}
			return a.showMigrations(applied)
		},
	}
	up.Flags().StringVar(&login, "grant-to", "", "a login, there already, that may take every role of offerlog from then on")
	return group("migrate", "Bring the database to this program's schema",
		up,
		&cobra.Command{
			Use:     "status",
			Short:   "Say which steps the database has",
			Example: "  offerlog migrate status --postgres postgres://postgres@localhost/offerlog\n  offerlog migrate status --json",
			Args:    noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				a.findDev()
				if err := a.needPostgres(); err != nil {
					return err
				}
				pool, err := postgres.Open(cmd.Context(), a.settings.Postgres, 1)
				if err != nil {
					return err
				}
				defer pool.Close()
				steps, unknown, err := postgres.Migrations(cmd.Context(), pool)
				if err != nil {
					return err
				}
				for _, version := range unknown {
					steps = append(steps, postgres.Migration{Version: version, Name: "of a newer offerlog", Applied: true})
				}
				return a.showMigrations(steps)
			},
		})
}

// grantRoles makes a login of the server a member of every role.
func grantRoles(ctx context.Context, dsn, login string) error {
	roles := make([]string, len(postgres.Roles()))
	for i, r := range postgres.Roles() {
		roles[i] = string(r)
	}
	name := pgx.Identifier{login}.Sanitize()
	err := execute(ctx, dsn, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "GRANT "+strings.Join(roles, ", ")+" TO "+name)
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42704" {
		return &exitError{exitNotFound, "no_login", "make it as an administrator of the server: CREATE ROLE " + name + " LOGIN PASSWORD '...' NOSUPERUSER NOBYPASSRLS",
			fmt.Errorf("the server has no login %s", login)}
	}
	if err != nil {
		return fmt.Errorf("grant the roles to %s: %w", login, err)
	}
	return nil
}

// A shownMigration is one line of migrate.
type shownMigration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (a *app) showMigrations(steps []postgres.Migration) error {
	rows := make([]shownMigration, len(steps))
	for i, s := range steps {
		rows[i] = shownMigration(s)
	}
	return show(a, "VERSION\tNAME\tSTATE", rows, func(m shownMigration) string {
		state := "pending"
		if m.Applied {
			state = "applied"
		}
		return fmt.Sprintf("%d\t%s\t%s", m.Version, m.Name, state)
	})
}
