package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/streams/audit"
)

func (a *app) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Hold what is stored against the invariants; changes nothing",
		Long: "Reads the database in one snapshot, the topics and the archive, maps every payload again, and prints for each invariant\n" +
			"what was looked at and a line for each violation. Without --archive the evidence is not checked, and the lines say so.\n" +
			"It may run while everything works; what is published is pruned only when no audit runs, so a long one lets the outbox grow.",
		Example: "  offerlog audit\n  offerlog audit --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.audit(cmd.Context()) },
	}
}

// holdToInvariants audits the servers of the settings, or of a running dev.
func (a *app) holdToInvariants(ctx context.Context) (r audit.Report, err error) {
	in, err := a.lookInto(ctx)
	if err != nil {
		return r, err
	}
	defer in.close()
	inputs := audit.Inputs{Pool: in.pool, Cluster: a.settings.Cluster()}
	if a.settings.Archive != "" {
		evidence, files, err := a.openArchive(in.pool)
		if err != nil {
			return r, err
		}
		defer func() { _ = files.Close() }() // it was only read
		mapper := mapping.NewChild(mapping.Config{})
		defer func() { _ = mapper.Close() }() // it has answered
		inputs.Archive, inputs.Mapper = evidence, mapper
	}
	return audit.Run(ctx, inputs)
}

func (a *app) audit(ctx context.Context) error {
	report, err := a.holdToInvariants(ctx)
	if err != nil {
		return err
	}
	if a.json {
		err = show(a, "", report.Invariants, nil)
	} else {
		err = report.Write(a.stdout)
	}
	if err != nil {
		return err
	}
	violations := 0
	for _, i := range report.Invariants {
		violations += i.Found
	}
	if violations > 0 {
		return &exitError{exitFailed, "violations", "keep the servers as they are, and look at what the lines name before anything is repaired",
			fmt.Errorf("audit: %d violations", violations)}
	}
	return nil
}
