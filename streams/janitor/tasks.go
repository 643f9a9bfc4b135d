package janitor

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/retention"
	"github.com/offerlog/offerlog/pkg/run"
)

// A task is one kind of thing that time leaves behind.
type task struct {
	name  string
	every time.Duration // from the end of one round to the next
	// step removes some of it, as much as a transaction holds well, and returns how many: 0 when nothing is left. now is the
	// clock by which things are old. It may be run again after a lost race or a crash.
	step func(ctx context.Context, tx pgx.Tx, now time.Time) (removed int, err error)
}

// journalKept is for how long each committed interval has a row of its own.
const journalKept = time.Hour

func tasks(cfg Config) []task {
	list := []task{
		{"merge-journal", 10 * time.Minute, func(ctx context.Context, tx pgx.Tx, now time.Time) (int, error) {
			return lane.MergeJournal(ctx, tx, now.Add(-journalKept))
		}},
		{"expire-receipts", 10 * time.Minute, func(ctx context.Context, tx pgx.Tx, now time.Time) (int, error) {
			feeds, err := feed.Horizons(ctx, tx)
			if err != nil {
				return 0, err
			}
			return receipt.Expire(ctx, tx, feeds, now)
		}},
		{"expire-runs", time.Hour, func(ctx context.Context, tx pgx.Tx, now time.Time) (int, error) {
			return expireKind(ctx, tx, now, retention.Runs, func(k feed.Kept) time.Duration { return k.Runs }, run.Expire)
		}},
		{"expire-quarantine", time.Hour, func(ctx context.Context, tx pgx.Tx, now time.Time) (int, error) {
			return expireKind(ctx, tx, now, retention.Quarantine, func(k feed.Kept) time.Duration { return k.Quarantine }, quarantine.Expire)
		}},
	}
	if cfg.Command != nil {
		list = append(list, task{"collect-tombstones", time.Hour, func(ctx context.Context, tx pgx.Tx, now time.Time) (int, error) {
			return 0, collectTombstones(ctx, tx, now, cfg.Command)
		}})
		list = append(list, task{"redrive", time.Minute, func(ctx context.Context, tx pgx.Tx, now time.Time) (int, error) {
			return 0, redrive(ctx, tx, now, cfg.Command)
		}})
	}
	if store := cfg.Archive; store != nil {
		// Before objects are collected, so that those which expire go in the same sweep.
		list = append(list, task{"expire-artifacts", time.Hour, expireArtifacts})
		list = append(list, task{"collect-objects", time.Hour, func(ctx context.Context, tx pgx.Tx, _ time.Time) (int, error) {
			return archive.Collect(ctx, tx, store)
		}})
	}
	return list
}

// notKept is why something is removed.
const notKept = "its feed keeps it no longer"

// expireKind removes records of one kind that their feed does not keep any longer: those of one feed a step, with a receipt.
func expireKind(ctx context.Context, tx pgx.Tx, now time.Time, kind string, of func(feed.Kept) time.Duration,
	expire func(ctx context.Context, tx pgx.Tx, tenant, feed string, before time.Time) (uuid.UUID, int64, error)) (int, error) {
	kept, err := feed.Retentions(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, k := range kept {
		if of(k) == 0 {
			continue
		}
		before := now.Add(-of(k))
		id, expired, err := expire(ctx, tx, k.Tenant, k.Feed, before)
		if err != nil {
			return 0, err
		}
		if expired > 0 {
			return int(expired), retention.Add(ctx, tx, retention.Receipt{Tenant: k.Tenant, ID: id, Kind: kind, Feed: k.Feed, Before: &before, Removed: expired,
				Reason: notKept, RecordedAt: now})
		}
	}
	return 0, nil
}

// expireArtifacts lets payloads go that their feeds do not keep any longer: those of one tenant a step, with a receipt.
func expireArtifacts(ctx context.Context, tx pgx.Tx, now time.Time) (int, error) {
	kept, err := feed.Retentions(ctx, tx)
	if err != nil {
		return 0, err
	}
	aged := map[string][]archive.Aged{}
	for _, k := range kept {
		if k.Artifacts > 0 {
			aged[k.Tenant] = append(aged[k.Tenant], archive.Aged{Feed: k.Feed, Before: now.Add(-k.Artifacts)})
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(aged)) {
		id, expired, err := archive.Expire(ctx, tx, tenant, aged[tenant])
		if err != nil {
			return 0, err
		}
		if expired == 0 {
			continue
		}
		r := retention.Receipt{Tenant: tenant, ID: id, Kind: retention.Artifacts, Removed: expired, Reason: notKept, RecordedAt: now}
		return int(expired), retention.Add(ctx, tx, r)
	}
	return 0, nil
}
