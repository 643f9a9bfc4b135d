package ingest

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/replay"
)

// A MappingVersion names a mapping version of a feed.
type MappingVersion struct {
	Feed    string `json:"feed"`
	Version int    `json:"mapping_version"`
}

// A mappingDecision takes a mapping version of a feed out of force, or puts it back.
type mappingDecision struct {
	decision.Decision
}

func readMappingDecision(tenant string, ev *delivery.Event, v MappingVersion, verdict decision.Verdict, standing decision.Standing) (command, *offer.Fault) {
	actor, reason, fault := why(ev)
	if fault != nil {
		return nil, fault
	}
	return &mappingDecision{decision.Decision{Subject: decision.OfMapping(tenant, v.Feed, v.Version), Feed: v.Feed, Mapping: v.Version, Verdict: verdict,
		Standing: standing, Actor: actor, Reason: reason}}, nil
}

// rereadRate is how many deliveries a second are read again where a decision on a mapping version asks for it.
const rereadRate = 500

// apply decides about the version, puts the newest that is in force by then in force for what is delivered from now on, and
// begins a replay that reads what was not read under that one: its id is that of the command's delivery.
func (c *mappingDecision) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	d := c.Decision
	f := st.registry.Feed(d.Tenant, d.Feed)
	if f == nil {
		return refusal("/mapping/feed", "the tenant has no feed %q: offerlog feed list names those that there are", d.Feed), nil
	}
	versions, out, err := st.mappings(ctx, tx, f)
	if err != nil {
		return nil, err
	}
	switch void := d.Standing == decision.NotCounting; {
	case !slices.Contains(versions, d.Mapping):
		return refusal("/mapping/mapping_version", "feed %s has no mapping version %d: offerlog feed list shows the one in force", f.Name, d.Mapping), nil
	case out[d.Mapping] == void:
		return refusal("/mapping/mapping_version", "nothing would change: mapping version %d of feed %s is %s force already", d.Mapping, f.Name, map[bool]string{true: "out of", false: "in"}[void]), nil
	default:
		out[d.Mapping] = void
	}
	i := slices.IndexFunc(versions, func(v int) bool { return !out[v] })
	if i < 0 {
		return refusal("/mapping/mapping_version", "feed %s would have no mapping version left: apply the right program as version %d first", f.Name, versions[0]+1), nil
	}
	d.Account, d.Command = f.Account, &e.key.Delivery
	st.decide(e, d)
	st.began = true
	if err := feed.PutInForce(ctx, tx, f.Tenant, f.Name, versions[i]); err != nil {
		return nil, err
	}
	return nil, replay.Begin(ctx, tx, &replay.Run{Tenant: f.Tenant, ID: uuid.UUID(e.key.Delivery), Selection: replay.Selection{Feed: f.Name, Mapping: versions[i]},
		Rate: rereadRate, Actor: d.Actor, Reason: d.Reason, RecordedAt: st.hold(e).RecordedAt})
}

// mappings are the mapping versions of a feed, the newest first, and which of them are out of force.
func (st *settlement) mappings(ctx context.Context, tx pgx.Tx, f *feed.Feed) (versions []int, out map[int]bool, err error) {
	if versions, err = feed.Versions(ctx, tx, f.Tenant, f.Name); err != nil {
		return nil, nil, err
	}
	ids := make([]uuid.UUID, len(versions))
	for i, v := range versions {
		ids[i] = decision.OfMapping(f.Tenant, f.Name, v).ID
	}
	last, err := decision.Last(ctx, tx, f.Tenant, ids)
	if err != nil {
		return nil, nil, err
	}
	out = map[int]bool{}
	for _, v := range versions {
		standing, found := st.standingOf(decision.OfMapping(f.Tenant, f.Name, v), last)
		out[v] = found && standing == decision.NotCounting
	}
	return versions, out, nil
}

// inForce refuses a mapping version that a feed does not have, or that is out of force: what is read under it does not count.
func (st *settlement) inForce(ctx context.Context, tx pgx.Tx, tenant, name string, version int) (*offer.Fault, error) {
	versions, out, err := st.mappings(ctx, tx, st.registry.Feed(tenant, name))
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(versions, version):
		return refusal("/mapping_version", "feed %s has no mapping version %d: apply it first", name, version), nil
	case out[version]:
		return refusal("/mapping_version", "mapping version %d of feed %s is out of force: offerlog redo mapping-version puts it back, or apply its program as version %d", version, name, versions[0]+1), nil
	}
	return nil, nil
}
