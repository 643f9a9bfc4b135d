package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/postgres"
)

// The roles of a process, in the order in which data moves.
const (
	roleIngest  = "ingest"
	roleRelay   = "relay"
	roleProject = "project"
	roleJanitor = "janitor"
	roleServe   = "serve"
)

// databaseRoles are what the login must be a member of for a role.
var databaseRoles = map[string][]postgres.Role{
	roleIngest:  {postgres.Ingest},
	roleRelay:   {postgres.Relay, postgres.Janitor},
	roleProject: {postgres.Project},
	roleJanitor: {postgres.Janitor},
	roleServe:   {postgres.Inspect, postgres.Read, postgres.Audit},
}

var allRoles = []string{roleIngest, roleRelay, roleProject, roleJanitor, roleServe}

func (a *app) runCommand() *cobra.Command {
	var roles []string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the stages against Kafka and PostgreSQL until told to stop",
		Example: "  offerlog run --kafka localhost:9092 --postgres postgres://offerlog@localhost/offerlog\n" +
			"  offerlog run --roles relay,serve --listen :8080",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, r := range roles {
				if !slices.Contains(allRoles, r) {
					return usage(didYouMean(r, allRoles, "choose from "+strings.Join(allRoles, ", ")), "unknown role %q", r)
				}
			}
			in, err := a.open(cmd.Context(), roles)
			if err != nil {
				return err
			}
			defer in.close()
			return in.run(cmd.Context())
		},
	}
	cmd.Flags().StringSliceVar(&roles, "roles", allRoles, "what this process does")
	return cmd
}

// An installation is the servers of one process, checked, and what runs on them.
type installation struct {
	app     *app
	kafka   *kgo.Client
	pool    *pgxpool.Pool
	http    net.Listener // of health and metrics; nil where nothing is served
	gateway net.Listener // of deliveries; nil where nothing is served
	stages  []stage
	undo    []func()
}

// A stage moves data, or answers questions about it, until its context is done.
type stage interface {
	Run(ctx context.Context) error
}

// open checks everything that roles need before anything runs. All that it may leave behind is the archive's folder, which is
// made where there is none.
func (a *app) open(ctx context.Context, roles []string) (_ *installation, err error) {
	in := &installation{app: a}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if in.kafka, err = a.openKafka(ctx); err != nil {
		return nil, err
	}
	in.undo = append(in.undo, in.kafka.Close)
	if in.pool, err = a.openPostgres(ctx); err != nil {
		return nil, err
	}
	in.undo = append(in.undo, in.pool.Close)
	needed := []postgres.Role{postgres.Ingest} // the checks read lanes and feeds as ingest does
	for _, r := range roles {
		needed = append(needed, databaseRoles[r]...)
	}
	if err = checkRoles(ctx, in.pool, needed); err != nil {
		return nil, err
	}
	if err = checkTopics(ctx, in.kafka, a.settings.Cluster(), in.pool, a.log()); err != nil {
		return nil, err
	}
	if slices.Contains(roles, roleServe) {
		if in.http, err = in.listen(a.settings.Listen, "--listen (dev: --port)"); err != nil {
			return nil, err
		}
		if in.gateway, err = in.listen(a.settings.GatewayListen, "--gateway-listen"); err != nil {
			return nil, err
		}
	}
	if err = in.makeStages(roles); err != nil {
		return nil, err
	}
	return in, nil
}

// listen takes an address, which close gives back.
func (in *installation) listen(address, setting string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &exitError{exitFailed, "listen", "stop what uses the address, or choose another with " + setting, err}
	}
	in.undo = append(in.undo, func() { _ = l.Close() }) // again, after the server has
	return l, nil
}

func (in *installation) close() {
	for _, undo := range slices.Backward(in.undo) {
		undo()
	}
	in.undo = nil
}

// run joins the stages: the first that fails stops the others, and each finishes what it has in hand.
func (in *installation) run(ctx context.Context) error {
	log := in.app.log()
	begin := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range in.stages {
		g.Go(func() error { return s.Run(ctx) })
	}
	log.Info("running", "stages", len(in.stages))
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	log.Info("stopped", "after", time.Since(begin).Round(time.Second))
	return nil
}
