package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/postgres"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "Bring the database to this program's schema",
		&cobra.Command{
			Use:     "up",
			Short:   "Apply what is missing; the login must be allowed to create roles",
			Example: "  offerlog migrate up --postgres postgres://postgres@localhost/offerlog\n  offerlog migrate up --json",
			Args:    noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := a.needPostgres(); err != nil {
					return err
				}
				applied, err := postgres.Migrate(cmd.Context(), a.settings.Postgres)
				if err != nil {
					return err
				}
				return a.showMigrations(applied)
			},
		},
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
