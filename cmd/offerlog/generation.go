package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/export"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams/project"
)

func (a *app) generationCommand() *cobra.Command {
	build := &cobra.Command{
		Use:   "build [GENERATION]",
		Short: "Build the view anew, beside the one that readers see",
		Long: "Makes a generation into which everything that comes is projected too, fills it from history, and proves it by counting and\n" +
			"hashing. Readers see nothing of it. Where a build was interrupted, name its generation: it goes on.",
		Example: "  offerlog generation build --reason \"new release\"\n  offerlog generation build 2",
		Args:    cobra.MaximumNArgs(1),
	}
	a.onGenerations(build, func(ctx context.Context, pool *pgxpool.Pool, args []string, c project.Command) (g generation, err error) {
		if len(args) == 0 {
			g.ID, err = project.Make(ctx, pool, c)
		} else {
			g.ID, err = parseGeneration(args[0])
		}
		if err != nil {
			return g, err
		}
		told := time.Now()
		err = project.Fill(ctx, pool, g.ID, func(offers int) {
			if time.Since(told) > 5*time.Second {
				told = time.Now()
				fmt.Fprintf(a.stderr, "generation %d: %d offers\n", g.ID, offers)
			}
		})
		if err != nil {
			return g, err
		}
		return proven(project.Finish(ctx, pool, g.ID))
	})
	switched := &cobra.Command{
		Use:   "switch GENERATION",
		Short: "Let readers see a generation, if it is complete",
		Long: "Proves the generation as verify does, and moves the pointer: one row. Each partition publishes, with its next batch, what the\n" +
			"generation shows otherwise than was published. The one before is projected on until it is retired. One that is empty, or has\n" +
			"fewer than nine tenths of the offers for sale, needs a reason.",
		Example: "  offerlog generation switch 2",
		Args:    oneArg("GENERATION"),
	}
	a.onGenerations(switched, func(ctx context.Context, pool *pgxpool.Pool, args []string, c project.Command) (generation, error) {
		id, err := parseGeneration(args[0])
		if err != nil {
			return generation{}, err
		}
		p, err := project.Switch(ctx, pool, id, c)
		a.tellWrong(p)
		return proven(p, err)
	})
	rollback := &cobra.Command{
		Use:     "rollback",
		Short:   "Let readers see the generation again that they saw before the last switch",
		Example: "  offerlog generation rollback --reason \"ticket 4411\"",
		Args:    noArgs,
	}
	a.onGenerations(rollback, func(ctx context.Context, pool *pgxpool.Pool, _ []string, c project.Command) (generation, error) {
		p, err := project.Rollback(ctx, pool, c)
		a.tellWrong(p)
		return proven(p, err)
	})
	retire := &cobra.Command{
		Use:     "retire GENERATION",
		Short:   "Project no more into a generation that readers do not see, and remove its rows",
		Example: "  offerlog generation retire 1",
		Args:    oneArg("GENERATION"),
	}
	a.onGenerations(retire, func(ctx context.Context, pool *pgxpool.Pool, args []string, c project.Command) (g generation, err error) {
		if g.ID, err = parseGeneration(args[0]); err != nil {
			return g, err
		}
		if _, err = project.Retire(ctx, pool, g.ID, c); err != nil {
			return g, err
		}
		list, err := generations(ctx, pool)
		if err != nil {
			return g, err
		}
		i := slices.IndexFunc(list, func(of view.Generation) bool { return of.ID == g.ID })
		return generation{list[i], "retired"}, nil
	})
	return group("generation", "Build, prove and switch generations of the view", build, a.generationListCommand(), a.generationShowCommand(), a.generationDiffCommand(),
		a.generationVerifyCommand(), switched, rollback, retire, a.generationExportCommand())
}

// A generation, as commands print it: schemas/generation.v1.json. The manifest of one that is not retired is of what it holds, not
// the one that was kept.
type generation struct {
	view.Generation
	State string `json:"status"` // complete, building, damaged, retired
}

func found(p project.Proof) generation {
	g := generation{p.Generation, p.Status()}
	g.Manifest = &p.Found
	return g
}

func proven(p project.Proof, err error) (generation, error) { return found(p), err }

func generations(ctx context.Context, pool *pgxpool.Pool) (list []view.Generation, err error) {
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		list, err = view.Generations(ctx, tx)
		return err
	})
	return list, err
}

// tellWrong names the rows that a proof has found wrong.
func (a *app) tellWrong(p project.Proof) {
	for _, w := range p.Wrong {
		fmt.Fprintf(a.stderr, "%s: %s\n", w.Key, w.How)
	}
}

func parseGeneration(text string) (int, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, usage("run offerlog generation list", "%q is no generation", text)
	}
	return int(id), nil
}

// onGenerations gives a command the database as the projector, and who does it and why.
func (a *app) onGenerations(cmd *cobra.Command, f func(ctx context.Context, pool *pgxpool.Pool, args []string, c project.Command) (generation, error)) {
	var c project.Command
	cmd.Flags().StringVar(&c.Actor, "actor", userName(), "who does this")
	cmd.Flags().StringVar(&c.Reason, "reason", "", "why; kept with it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pool, err := a.openProjector(cmd.Context())
		if err != nil {
			return err
		}
		defer pool.Close()
		g, err := f(cmd.Context(), pool, args, c)
		if err != nil {
			return refusedGeneration(err)
		}
		return a.showGenerations([]generation{g})
	}
}

func (a *app) openProjector(ctx context.Context) (*pgxpool.Pool, error) {
	a.findDev()
	pool, err := a.openPostgres(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkRoles(ctx, pool, []postgres.Role{postgres.Project}); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// refusedGeneration gives a refusal its name, exit code and next step.
func refusedGeneration(err error) error {
	for _, r := range []struct {
		is error
		exitError
	}{
		{view.ErrNoGeneration, exitError{exit: exitNotFound, code: "no_generation", hint: "run offerlog generation list"}},
		{project.ErrNotBefore, exitError{exit: exitNotFound, code: "no_generation", hint: "run offerlog generation list"}},
		{export.ErrNone, exitError{exit: exitNotFound, code: "no_export", hint: "run offerlog generation export"}},
		{export.ErrDamaged, exitError{exit: exitConflict, code: "export_damaged", hint: "run offerlog generation export again"}},
		{view.ErrNoCheckpoint, exitError{exit: exitNotFound, code: "nothing_projected", hint: "start offerlog run --roles project once"}},
		{project.ErrIncomplete, exitError{exit: exitConflict, code: "generation_incomplete", hint: "run offerlog generation build with its number, or build another one"}},
		{project.ErrMoved, exitError{exit: exitConflict, code: "generation_moved", hint: "run offerlog generation list, and decide again"}},
		{project.ErrShrunken, exitError{exit: exitConflict, code: "generation_shrunken", hint: "give --reason if that is right"}},
		{project.ErrInUse, exitError{exit: exitConflict, code: "generation_in_use", hint: "switch to another one; a partition publishes the one before until its next event"}},
	} {
		if errors.Is(err, r.is) {
			r.err = err
			return &r.exitError
		}
	}
	return err
}

func (a *app) generationListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "Print the generations, each counted and hashed",
		Long:    "Status is what counting and hashing finds, as verify does: nothing that a builder has written is believed.",
		Example: "  offerlog generation list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			pool, err := a.openProjector(ctx)
			if err != nil {
				return err
			}
			defer pool.Close()
			list, err := generations(ctx, pool)
			if err != nil {
				return err
			}
			shown := make([]generation, len(list))
			for i, g := range list {
				if shown[i] = (generation{g, "retired"}); g.RetiredAt != nil {
					continue
				}
				if shown[i], err = proven(project.Prove(ctx, pool, g.ID)); err != nil {
					return err
				}
			}
			return a.showGenerations(shown)
		},
	}
}

func (a *app) generationShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [GENERATION]",
		Short: "Print the manifest of a generation: of the one that readers see, or another",
		Long: "Counts and hashes it, as verify does, and prints what it holds by tenant: claims that it follows from, offers, mapping versions,\n" +
			"and digests of each. With --json the whole of it, as schemas/generation.v1.json says.",
		Example: "  offerlog generation show\n  offerlog generation show 2 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			pool, err := a.openProjector(ctx)
			if err != nil {
				return err
			}
			defer pool.Close()
			var id int
			if len(args) > 0 {
				id, err = parseGeneration(args[0])
			} else {
				id, err = active(ctx, pool)
			}
			if err != nil {
				return err
			}
			g, err := proven(project.Prove(ctx, pool, id))
			if err != nil {
				return refusedGeneration(err)
			}
			if a.json {
				return a.showGenerations([]generation{g})
			}
			m := g.Manifest
			fmt.Fprintf(a.stderr, "note: generation %d is %s; newest recorded moment %d\n", g.ID, g.State, m.Tick)
			return show(a, "TENANT\tOFFERS\tDELETED\tDIGEST\tCLAIMS\tINPUTS\tMAPPINGS", m.Tenants, func(t view.TenantPart) string {
				mappings := make([]string, len(t.Mappings))
				for i, m := range t.Mappings {
					mappings[i] = fmt.Sprintf("%s:%d", m.Feed, m.Version)
				}
				return cells(t.Tenant, decimal(t.Offers), decimal(t.Deleted), t.Digest.String(), decimal(t.Inputs.Claims), t.Inputs.Digest.String(),
					strings.Join(mappings, " "))
			})
		},
	}
}

func (a *app) generationDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Print the offers that two generations show otherwise, field by field",
		Long: "Compares all rows of both in one snapshot. Where they differ the exit code is 5. With --json each offer is a line, and the last\n" +
			"one has the counts.",
		Example: "  offerlog generation diff 1 2\n  offerlog generation diff 1 2 --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := parseGeneration(args[0])
			if err != nil {
				return err
			}
			after, err := parseGeneration(args[1])
			if err != nil {
				return err
			}
			pool, err := a.openProjector(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			c, err := project.Compare(cmd.Context(), pool, before, after, a.showDifference)
			if err != nil {
				return refusedGeneration(err)
			}
			if a.json {
				err = show(a, "", []view.Comparison{c}, nil)
			}
			if err == nil && c.Differ() {
				err = &exitError{exitConflict, "generations_differ", "", fmt.Errorf("generations %d and %d differ: %d offers are other ones, %d are only in %d, %d only in %d; %d are the same",
					before, after, c.Changed, c.OnlyBefore, before, c.OnlyAfter, after, c.Same)}
			}
			return err
		},
	}
}

// showDifference prints an offer as soon as it is found: there may be very many.
func (a *app) showDifference(d view.Difference) error {
	if a.json {
		return show(a, "", []view.Difference{d}, nil)
	}
	what := "only " + d.In
	if d.In == "both" {
		changes := make([]string, len(d.Fields))
		for i, f := range d.Fields {
			changes[i] = fmt.Sprintf("%s %s -> %s", f.Field, f.Was, f.Is)
		}
		what = strings.Join(changes, ", ")
	}
	_, err := fmt.Fprintln(a.stdout, cells(d.Tenant, d.Account, d.Record, what))
	return err
}

func (a *app) generationVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify GENERATION|FOLDER",
		Short: "Count and hash a generation, and derive from history what it must hold",
		Long: "Reads all of the generation and of history, in one snapshot; what is missing or differs is named. It changes nothing.\n\n" +
			"Of a folder that offerlog generation export has written it reads all files and holds them against their names and the manifest:\n" +
			"one that is gone or was changed is named. That needs no database. A folder that is called by a number is written ./2.",
		Example: "  offerlog generation verify 2 --json\n  offerlog generation verify ./exported",
		Args:    oneArg("GENERATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := parseGeneration(args[0])
			if err != nil {
				m, err := export.Verify(args[0])
				if err != nil {
					return refusedGeneration(err)
				}
				return a.showExport(m)
			}
			pool, err := a.openProjector(ctx)
			if err != nil {
				return err
			}
			defer pool.Close()
			p, err := project.Prove(ctx, pool, id)
			if err == nil {
				a.tellWrong(p)
				err = p.Err()
			}
			if err != nil {
				return refusedGeneration(err)
			}
			return a.showGenerations([]generation{found(p)})
		},
	}
}

func (a *app) generationExportCommand() *cobra.Command {
	var id int
	cmd := &cobra.Command{
		Use:   "export FOLDER",
		Short: "Write the generation that readers see, or another, to files",
		Long: "Proves the generation as verify does and writes it, as of one snapshot: offers as NDJSON, a manifest that names these files, and\n" +
			"current.json, which names the manifest. Each is durable before the next is written, so a reader who begins at current.json never\n" +
			"sees a part. Into the same folder the next export is written beside the one before, and then takes its place; what one that was\n" +
			"killed has left there it removes.",
		Example: "  offerlog generation export ./exported\n  offerlog generation export ./exported --generation 2",
		Args:    oneArg("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			pool, err := a.openProjector(ctx)
			if err != nil {
				return err
			}
			defer pool.Close()
			if id == 0 {
				if id, err = active(ctx, pool); err != nil {
					return err
				}
			}
			if err := project.Export(ctx, pool, id, args[0]); err != nil {
				return refusedGeneration(err)
			}
			m, err := export.Verify(args[0]) // what was written is read again
			if err != nil {
				return refusedGeneration(err)
			}
			return a.showExport(m)
		},
	}
	cmd.Flags().IntVar(&id, "generation", 0, "which one; 0: the one that readers see")
	return cmd
}

func active(ctx context.Context, pool *pgxpool.Pool) (id int, err error) {
	err = postgres.InTx(ctx, pool, postgres.Project, func(tx pgx.Tx) (err error) {
		id, err = view.Active(ctx, tx)
		return err
	})
	return id, err
}

func (a *app) showExport(m export.Manifest) error {
	return show(a, "GENERATION\tOFFERS\tDELETED\tDIGEST\tOBJECTS", []export.Manifest{m}, func(m export.Manifest) string {
		return cells(decimal(int64(m.Generation)), decimal(m.Offers), decimal(m.Deleted), m.Digest.String(), decimal(int64(len(m.Objects))))
	})
}

func (a *app) showGenerations(list []generation) error {
	return show(a, "GENERATION\tACTIVE\tSTATUS\tOFFERS\tDELETED\tDIGEST", list, func(g generation) string {
		var (
			n view.Counts
			d offer.Digest
		)
		if g.Manifest != nil {
			n, d = g.Manifest.Counts, g.Manifest.Digest
		}
		active := ""
		if g.Active {
			active = "yes"
		}
		return cells(decimal(int64(g.ID)), active, g.State, decimal(n.Offers), decimal(n.Deleted), d.String())
	})
}
