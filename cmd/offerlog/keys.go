package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) keysCommand() *cobra.Command {
	var (
		d, why          decision
		timeout, within time.Duration
		master          bool
	)
	rotate := &cobra.Command{
		Use:   "rotate [--master]",
		Short: "Give the tenant's new objects a new key, or seal all tenants' keys under a new master key",
		Long: "Without --master: what the tenant sends from now on is sealed under a new key (running processes take it within a minute);\n" +
			"what is there stays readable under the old one.\n\n" +
			"With --master: the keys of all tenants are sealed again, under the first master key of --archive-key-file; no object is\n" +
			"touched. The steps, none of which stops anything, since processes read their key files again by themselves:\n" +
			"  1. add the new master key to each process's key file, as a second line\n" +
			"  2. make it the first line of each\n" +
			"  3. run offerlog keys rotate --master, again after a crash, until it says that nothing was left to do\n" +
			"  4. remove the old line from each",
		Example: "  offerlog keys rotate --tenant demo --reason \"yearly\"\n  offerlog keys rotate --master",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if master {
				return a.rotateMaster(cmd)
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			a.findDev()
			doc, err := a.command(ctx, streams.KeyRotateType, ofTenant{a.settings.Tenant}, d)
			if err != nil {
				return fmt.Errorf("rotate the key of tenant %s: %w", a.settings.Tenant, err)
			}
			return a.showKeyCommand("rotated", doc)
		},
	}
	rotate.Flags().BoolVar(&master, "master", false, "the master key instead of the tenant's")
	d.flags(rotate, &timeout)

	shred := &cobra.Command{
		Use:   "shred TENANT --reason TEXT",
		Short: "Destroy a tenant's keys: nothing of its evidence can ever be read again",
		Long: "Destroys all keys of a tenant. Its payloads cannot be decrypted any more, by nobody and from no backup of the archive (keep\n" +
			"backups of the database as short as you must: they hold its keys). Names, digests, receipts and observations stay, and a\n" +
			"receipt of the destruction is kept. What the tenant sends later is sealed under a new key.",
		Example: "  offerlog keys shred demo --tenant demo --reason \"contract ended, ticket 4711\"",
		Args:    oneArg("TENANT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.findDev()
			if args[0] != a.settings.Tenant {
				return usage("run it with --tenant "+args[0], "the tenant to shred is %q, the settings name %q: this cannot be undone, so both must say the same", args[0], a.settings.Tenant)
			}
			if why.reason == "" {
				return usage("say why with --reason", "what is destroyed for good has a reason")
			}
			ctx, cancel := withTimeout(cmd.Context(), within)
			defer cancel()
			doc, err := a.command(ctx, streams.KeyShredType, ofTenant{args[0]}, why)
			if err != nil {
				return fmt.Errorf("shred the evidence of tenant %s: %w", args[0], err)
			}
			return a.showKeyCommand("shredded", doc)
		},
	}
	why.flags(shred, &within)
	return group("keys", "Replace and destroy the keys of the evidence", rotate, shred)
}

// ofTenant is the data of a command about a whole tenant.
type ofTenant struct {
	Tenant string `json:"tenant"`
}

// A keyed tenant is what became of a command about its keys.
type keyed struct {
	Tenant string `json:"tenant"`
	State  string `json:"state"`
	receipt.Standpoint
}

func (a *app) showKeyCommand(state string, doc receipt.Document) error {
	return show(a, "TENANT\tSTATE\tEVENT", []keyed{{a.settings.Tenant, state, doc.Standpoint}}, func(k keyed) string {
		return cells(k.Tenant, k.State, k.Where())
	})
}

// rotateMaster seals the keys of all tenants under the first master key of the key file.
func (a *app) rotateMaster(cmd *cobra.Command) error {
	a.findDev()
	if err := a.needPostgres(); err != nil {
		return err
	}
	ring, err := a.openKeyring()
	if err != nil {
		return err
	}
	pool, err := a.openPostgres(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := checkRoles(cmd.Context(), pool, []postgres.Role{postgres.Janitor}); err != nil {
		return err
	}
	n, err := archive.NewPostgresKeys(asRole{pool, postgres.Janitor}, ring).Rewrap(cmd.Context())
	if err != nil {
		return &exitError{exitFailed, "rotation_unfinished", "mend the cause and run it again: keys that are done stay done, and all of them open while both master keys are in the key files", err}
	}
	return show(a, "KEYS SEALED AGAIN", []rotated{{n}}, func(r rotated) string { return decimal(int64(r.Keys)) })
}

// A rotated master key has sealed so many keys.
type rotated struct {
	Keys int `json:"keys"`
}
