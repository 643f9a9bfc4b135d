package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/streams/audit"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Derive every stage again from the one before, and compare counts and digests; changes nothing",
		Long: "Maps the evidence of every accepted delivery again and compares what it says with history, history with the topic of observations,\n" +
			"the fold of history with the view, and what the view has published with the topic of offers. Prints a line for each stage, feed\n" +
			"and hour in which something was recorded: how many there must be, how many there are, and whether their digests are equal. The first\n" +
			"record that is missing or wrong is named, and the exit code is 5. It reads as offerlog audit does, which names all of them.",
		Example: "  offerlog verify\n  offerlog verify --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.verify(cmd.Context()) },
	}
}

func (a *app) verify(ctx context.Context) error {
	a.findDev()
	if a.settings.Archive == "" {
		return usage("set --archive as ingest has it", "without the archive there is nothing to derive history from")
	}
	report, err := a.holdToInvariants(ctx)
	if err != nil {
		return err
	}
	parts := report.Parts()
	err = show(a, "STAGE\tTENANT\tFEED\tHOUR\tWANT\tHAVE\tDIGESTS", parts, func(p audit.Part) string {
		digests := "equal"
		if p.WantDigest != p.HaveDigest {
			digests = "differ"
		}
		return cells(p.Stage, p.Tenant, p.Feed, p.Hour, decimal(p.Want), decimal(p.Have), digests)
	})
	if err != nil {
		return err
	}
	for _, why := range report.NotVerified() {
		fmt.Fprintln(a.stderr, "note: not verified:", why)
	}
	wrong := &exitError{exitConflict, "mismatch", "run offerlog audit for all that is wrong, and keep the servers as they are until it is known why", nil}
	if v := report.FirstWrong(); v != nil {
		wrong.err = fmt.Errorf("verify: %s", v)
		return wrong
	}
	if i := slices.IndexFunc(parts, func(p audit.Part) bool { return !p.OK() }); i >= 0 {
		p := parts[i]
		wrong.err = fmt.Errorf("verify: %s of feed %s of tenant %s, hour %s: %d with digest %s are stored, and %d with digest %s follow from the stage before",
			p.Stage, p.Feed, p.Tenant, p.Hour, p.Have, p.HaveDigest, p.Want, p.WantDigest)
		return wrong
	}
	return nil
}
