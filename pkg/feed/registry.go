package feed

import (
	"cmp"
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed load.sql
var loadSQL string

//go:embed horizons.sql
var horizonsSQL string

//go:embed retentions.sql
var retentionsSQL string

// Querier is what the readers here need: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Feed is a registered feed, as ingest uses it.
type Feed struct {
	Tenant         string
	Name           string
	Connector      string
	Account        string
	Source         string   // of its events
	Topics         []string // own names, without an installation's prefix
	Identity       delivery.Identity
	MappingVersion int // the one in force
	Reading        mapping.Spec
	ReadingDigest  offer.Digest // of Reading
	Policy         Policy
	Mode           string   // ModeChanges or ModeSnapshot
	Sequential     bool     // the source's versions of a record rise by one
	DataHosts      []string // that its events' data may be fetched from: Dataref.Hosts
}

// Who is whose deliveries the feed's are.
func (f *Feed) Who() offer.Source {
	return offer.Source{Tenant: f.Tenant, Connector: f.Connector, Account: f.Account}
}

// Under returns f as it reads payloads under one of its mapping versions, in force or not, or an ErrUnknown.
func (f *Feed) Under(ctx context.Context, tx pgx.Tx, version int) (*Feed, error) {
	if version == f.MappingVersion {
		return f, nil
	}
	reading, err := ReadingOf(ctx, tx, f.Tenant, f.Name, version)
	if err != nil {
		return nil, err
	}
	other := *f
	other.MappingVersion, other.Reading, other.ReadingDigest = version, reading, reading.Digest()
	return &other, nil
}

// A Registry is what was registered at one version. It does not change, so goroutines may share it.
type Registry struct {
	Version int64

	feeds  []*Feed
	routes map[route]*Feed
}

type route struct{ topic, source string }

// Load reads the whole registry, all tenants, in one statement.
func Load(ctx context.Context, q Querier) (*Registry, error) { return load(ctx, q, 0) }

// Current returns the registry in force: have, where that is still the one (nil: there is none yet), else what Load reads.
func Current(ctx context.Context, q Querier, have *Registry) (*Registry, error) {
	if have == nil {
		return Load(ctx, q)
	}
	r, err := load(ctx, q, have.Version)
	if err == nil && r == nil {
		return have, nil
	}
	return r, err
}

// load returns nil where the registry is at the known version.
func load(ctx context.Context, q Querier, known int64) (*Registry, error) {
	rows, err := q.Query(ctx, loadSQL, known)
	if err != nil {
		return nil, fmt.Errorf("load the feeds: %w", err)
	}
	r := &Registry{routes: map[route]*Feed{}}
	var (
		tenant, name, connector, account, source, mode *string
		topics, dataHosts                              []string
		version                                        *int
		sequential                                     *bool
		identity, policy, digest, reading              []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&r.Version, &tenant, &name, &connector, &account, &source, &topics, &identity, &version, &policy, &mode, &sequential, &dataHosts, &digest, &reading}, func() error {
		if tenant == nil {
			return nil // no feed yet
		}
		f := &Feed{Tenant: *tenant, Name: *name, Connector: *connector, Account: *account, Source: *source, Topics: slices.Clone(topics), MappingVersion: *version, Sequential: *sequential, Mode: *mode, DataHosts: slices.Clone(dataHosts)}
		copy(f.ReadingDigest[:], digest)
		if err := cmp.Or(json.Unmarshal(identity, &f.Identity), json.Unmarshal(policy, &f.Policy)); err != nil {
			return fmt.Errorf("feed %s of tenant %s: %w", f.Name, f.Tenant, err)
		}
		if err := json.Unmarshal(reading, &f.Reading); err != nil {
			return fmt.Errorf("feed %s of tenant %s: %w", f.Name, f.Tenant, err)
		}
		if err := json.Unmarshal(policy, &f.Policy); err != nil {
			return fmt.Errorf("feed %s of tenant %s: %w", f.Name, f.Tenant, err)
		}
		if p := f.Policy.problem(); p != "" {
			return fmt.Errorf("feed %s of tenant %s: policy.tombstone_horizon: %s", f.Name, f.Tenant, p)
		}
		// A version that would be read in another way than when it was applied must not be read at all.
		if f.Reading.Digest() != f.ReadingDigest {
			return fmt.Errorf("feed %s of tenant %s: mapping version %d does not have the digest it was applied with: its row was changed, or another offerlog applied it; run the one that did",
				f.Name, f.Tenant, f.MappingVersion)
		}
		r.feeds = append(r.feeds, f)
		for _, topic := range f.Topics {
			r.routes[route{topic, f.Source}] = f
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load the feeds: %w", err)
	}
	if r.Version == 0 {
		return nil, nil
	}
	return r, nil
}

// Route is the feed that expects events with the source on the topic, both compared byte by byte; nil: none does.
func (r *Registry) Route(topic, source string) *Feed { return r.routes[route{topic, source}] }

// Tenants are those that have feeds, sorted.
func (r *Registry) Tenants() []string {
	var tenants []string
	for _, f := range r.feeds {
		tenants = append(tenants, f.Tenant)
	}
	slices.Sort(tenants)
	return slices.Compact(tenants)
}

// Feed is one by its name; nil: the tenant has none of that name.
func (r *Registry) Feed(tenant, name string) *Feed {
	i := slices.IndexFunc(r.feeds, func(f *Feed) bool { return f.Tenant == tenant && f.Name == name })
	if i < 0 {
		return nil
	}
	return r.feeds[i]
}

// Snapshots is the feed that brings whole catalogues of an account; nil: none does.
func (r *Registry) Snapshots(tenant, account string) *Feed {
	i := slices.IndexFunc(r.feeds, func(f *Feed) bool { return f.Mode == ModeSnapshot && f.Tenant == tenant && f.Account == account })
	if i < 0 {
		return nil
	}
	return r.feeds[i]
}

// Topics are the input topics of all feeds, sorted, without an installation's prefix.
func (r *Registry) Topics() []string {
	var topics []string
	for _, f := range r.feeds {
		topics = append(topics, f.Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// Feeds are all feeds, by tenant and name. The caller changes none of them.
func (r *Registry) Feeds() []*Feed { return r.feeds }

// LockShared holds the registry as it is until tx ends, and returns its version: what was mapped under another one is
// mapped again.
func LockShared(ctx context.Context, tx pgx.Tx) (version int64, err error) {
	return lock(ctx, tx, "SELECT version FROM registry FOR SHARE")
}

// LockExclusive waits for every shared holder and keeps others away until tx ends.
func LockExclusive(ctx context.Context, tx pgx.Tx) (version int64, err error) {
	return lock(ctx, tx, "SELECT version FROM registry FOR UPDATE")
}

func lock(ctx context.Context, tx pgx.Tx, statement string) (version int64, err error) {
	if err := tx.QueryRow(ctx, statement).Scan(&version); err != nil {
		return 0, fmt.Errorf("lock the registry: %w", err)
	}
	return version, nil
}

// A Horizon is for how long the deliveries of a feed are known by their receipts, and its deletions are shown as such.
type Horizon struct {
	Tenant    string
	Feed      string
	Dedupe    time.Duration
	Tombstone time.Duration
}

// Horizons reads those of all feeds; the janitor's role may.
func Horizons(ctx context.Context, q Querier) ([]Horizon, error) {
	rows, err := q.Query(ctx, horizonsSQL)
	if err != nil {
		return nil, fmt.Errorf("read the horizons of the feeds: %w", err)
	}
	horizons, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Horizon, err error) {
		var dedupe, tombstone string
		if err := row.Scan(&h.Tenant, &h.Feed, &dedupe, &tombstone); err != nil {
			return h, err
		}
		h.Dedupe, h.Tombstone = time.Duration(parseDuration(dedupe)), time.Duration(parseDuration(tombstone))
		if h.Dedupe == 0 || h.Tombstone == 0 {
			err = fmt.Errorf("feed %s of tenant %s: dedupe_horizon %q or tombstone_horizon %q is no duration", h.Feed, h.Tenant, dedupe, tombstone)
		}
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the horizons of the feeds: %w", err)
	}
	return horizons, nil
}

// A Kept is for how long a feed keeps kinds of record; 0: for ever.
type Kept struct {
	Tenant, Feed                string
	Runs, Quarantine, Artifacts time.Duration
}

// Retentions reads those of the feeds that do not keep everything for ever, by tenant; the janitor's role may.
func Retentions(ctx context.Context, q Querier) ([]Kept, error) {
	rows, err := q.Query(ctx, retentionsSQL)
	if err != nil {
		return nil, fmt.Errorf("read the retention of the feeds: %w", err)
	}
	kept, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k Kept, err error) {
		var texts struct{ runs, quarantine, artifacts string }
		if err := row.Scan(&k.Tenant, &k.Feed, &texts.runs, &texts.quarantine, &texts.artifacts); err != nil {
			return k, err
		}
		for _, of := range []struct {
			text string
			to   *time.Duration
		}{{texts.runs, &k.Runs}, {texts.quarantine, &k.Quarantine}, {texts.artifacts, &k.Artifacts}} {
			if *of.to = time.Duration(parseDuration(of.text)); *of.to == 0 && of.text != "" {
				return k, fmt.Errorf("feed %s of tenant %s: retention: %q is no duration", k.Feed, k.Tenant, of.text)
			}
		}
		return k, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the retention of the feeds: %w", err)
	}
	return kept, nil
}
