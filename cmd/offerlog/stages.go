package main

import (
	"context"
	"runtime"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/clock"
	"github.com/offerlog/offerlog/streams/gateway"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/janitor"
	"github.com/offerlog/offerlog/streams/project"
	"github.com/offerlog/offerlog/streams/relay"
)

// makeStages joins what roles ask for. Stages meet in topics and tables only; in one process a commit also wakes the relay,
// which then need not wait for its next look.
func (in *installation) makeStages(roles []string) error {
	var (
		log     = in.app.log()
		cluster = in.app.settings.Cluster()
		observe = newCollector(in.kafka, cluster, in.pool, log)
		store   archive.Store // of a process that writes it
		wake    func()
	)
	if slices.Contains(roles, roleRelay) {
		r := relay.New(in.pool, cluster, relay.Config{}, log)
		in.stages = append(in.stages, r)
		wake = r.Wake
	}
	if slices.Contains(roles, roleIngest) {
		arch, evidence, err := in.app.openArchive(in.pool)
		if err != nil {
			return err
		}
		store = evidence
		in.undo = append(in.undo, func() { _ = store.Close() }) // what was written is synced
		mapper := mapping.NewChild(mapping.Config{})
		in.undo = append(in.undo, func() { _ = mapper.Close() })
		fetcher, spool, err := in.openFetcher()
		if err != nil {
			return err
		}
		i := ingest.New(in.pool, cluster, arch, mapper, ingest.Config{Topics: []string{streams.Deliveries}, Workers: max(1, runtime.GOMAXPROCS(0)/4),
			Fetcher: fetcher, Spool: spool.Path(), Committed: wake, Stored: observe.stored}, log)
		in.stages = append(in.stages, i, clock.New(in.pool, 0, log))
		observe.ingest = i.Stats
	}
	if slices.Contains(roles, roleProject) {
		in.stages = append(in.stages, project.New(in.pool, cluster, project.Config{Committed: wake}, log))
	}
	if slices.Contains(roles, roleJanitor) {
		if in.app.settings.Archive == "" {
			return usage("set --archive as ingest has it, or leave janitor out of --roles", "the janitor has no archive to tidy up")
		}
		objects, err := in.app.openStore(in.app.settings.Archive)
		if err != nil {
			return err
		}
		in.undo = append(in.undo, func() { _ = objects.Close() }) // nothing was written
		in.stages = append(in.stages, janitor.New(in.pool, janitor.Config{Archive: objects, Command: func(ctx context.Context, event *kgo.Record) error {
			event.Topic = cluster.Topic(streams.Commands)
			return in.kafka.ProduceSync(ctx, event).FirstErr()
		}}, log))
	}
	if slices.Contains(roles, roleServe) {
		in.stages = append(in.stages, &server{in.http, in.kafka, in.pool, store, observe.registry()},
			gateway.New(in.pool, cluster, in.gateway, gateway.Config{}, log))
	}
	return nil
}
