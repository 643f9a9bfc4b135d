package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/offerlog/offerlog/pkg/feed"
)

// An app is one invocation: where it prints, and its settings once they are read.
type app struct {
	stdout, stderr io.Writer
	environ        []string

	json     bool
	settings Settings
	origins  map[string]string // setting -> where its value comes from
}

// execute runs a command line and returns the exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	a.json = slices.Contains(args, "--json") // known before the flags are, which may be wrong
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		return report(a.stderr, err, a.json)
	}
	return 0
}

func (a *app) root() *cobra.Command {
	root := group("offerlog", "Supplier deliveries to a log of observations and a view of current offers",
		a.devCommand(), a.runCommand(), a.feedCommand(), a.publishCommand(), a.waitCommand(), a.offersCommand(), a.itemCommand(), a.explainCommand(), a.observationsCommand(),
		a.deliveriesCommand(), a.quarantineCommand(), a.runsCommand(), a.replayCommand(), a.remapCommand(), a.reapplyCommand(), a.undoCommand(), a.redoCommand(), a.adoptCommand(),
		a.generationCommand(), a.tokenCommand(), a.statusCommand(), a.doctorCommand(), a.auditCommand(), a.verifyCommand(), a.topicsCommand(),
		a.artifactCommand(), a.keysCommand(), a.migrateCommand(), a.configCommand(), a.designCommand(), a.versionCommand())
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.SortFlags = false
	for _, s := range allSettings {
		flags.String(s.name, s.value, s.about)
	}
	flags.BoolVar(&a.json, "json", a.json, "print one JSON object a line")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		hint := "run " + cmd.CommandPath() + " --help"
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			hint = didYouMean("--"+unknown.GetSpecifiedName(), flagNames(cmd), hint)
		}
		return usage(hint, "%w", err)
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return a.readSettings(cmd.Flags())
	}
	return root
}

// group returns a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			return usage(didYouMean(args[0], names, "run "+cmd.CommandPath()+" --help"), "unknown command %q of %s", args[0], cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("run "+cmd.CommandPath()+" --help", "%s takes no argument, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

// didYouMean names the nearest of names, or returns otherwise where none is near.
func didYouMean(name string, names []string, otherwise string) string {
	best, least := "", len(name)/2+1
	for _, n := range names {
		if d := feed.Distance(name, n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return otherwise
	}
	return "did you mean " + best + "?"
}

// show writes rows: as JSON, one object a line, or as a table whose cells are separated by tabs.
func show[T any](a *app, header string, rows []T, cells func(T) string) error {
	if a.json {
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		for _, r := range rows {
			if err := enc.Encode(r); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, r := range rows {
		fmt.Fprintln(w, strings.TrimRight(cells(r), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// log writes structured lines to standard error, at the level of the settings.
func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: a.settings.LogLevel}))
}
