package ingest

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/pkg/snapshot"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
)

// A command is a decision of an operator, or of offerlog itself, read from its event.
type command interface {
	// apply carries it out for the event e, whose key is free, in the transaction of the batch, which holds the registry. What
	// cannot be is a fault: then it has changed nothing. Events that follow from it go through st.emit.
	apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (refusal *offer.Fault, err error)
}

// commands reads each type of command from its event; the tenant is the one that the event names.
var commands = map[string]func(tenant string, ev *delivery.Event) (command, *offer.Fault){
	streams.FeedApplyType:   readFeedApply,
	streams.FeedSuspendType: readFeedDecision(decision.Suspended, decision.NotCounting),
	streams.FeedResumeType:  readFeedDecision(decision.Resumed, decision.Counting),
	streams.UndoType:        readUndo(decision.Retracted, decision.NotCounting),
	streams.RedoType:        readUndo(decision.Restored, decision.Counting),
	streams.RunRelease:      readRelease,
	streams.RunReject:       readReject,
	streams.TokenCreateType: readTokenCreate,
	streams.TokenRevokeType: readTokenRevoke,
	streams.KeyRotateType:   readKeyRotate,
	streams.KeyShredType:    readKeyShred,
	streams.LaneAdoptType:   readLaneAdopt,
	streams.DueType:         readDue,
	streams.CollectType:     readCollect,
	streams.ItemLinkType:    readItemLink,
	streams.ItemUnlinkType:  readItemUnlink,

	streams.QuarantineReleaseType: readReleaseOfEntries,
	streams.QuarantineRejectType:  readRejectOfEntries,
	streams.QuarantineRedriveType: readRedrive,

	streams.ReplayStartType:  readReplayStart,
	streams.ReplayPauseType:  readReplaySet(replay.Paused),
	streams.ReplayResumeType: readReplaySet(replay.Running),
	streams.ReplayCancelType: readReplaySet(replay.Cancelled),
	streams.ReplayPageType:   readReplayPage,
}

// why returns who gives a command, as the server that took it says, and the reason that is kept with what it decides: it is refused
// without one.
func why(ev *delivery.Event) (actor, reason string, fault *offer.Fault) {
	actor, reason = ev.Attributes[streams.ExtActor], ev.Attributes[streams.ExtReason]
	if reason == "" {
		fault = &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: "ce_missing_attribute", Path: streams.ExtReason,
			Message: "a decision says why in the extension reason, which is kept with it"}
	}
	return actor, reason, fault
}

// A feedApply registers a feed, or its new settings.
type feedApply struct{ spec feed.Spec }

func readFeedApply(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	spec, err := feed.ParseJSON(ev.Data)
	if err != nil {
		refused := refusal("", "%v", err) // which names all that is wrong, not only the first
		if fault := Conforms(ev.Type, ev.Data); fault != nil {
			refused.Path = fault.Path
		}
		return nil, refused
	}
	if spec.Tenant != tenant {
		return nil, refusal("/tenant", "the feed is of tenant %q, the command of tenant %q", spec.Tenant, tenant)
	}
	return &feedApply{spec}, nil
}

func (c *feedApply) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	if f := st.registry.Feed(c.spec.Tenant, c.spec.Feed); f != nil {
		versions, out, err := st.mappings(ctx, tx, f)
		if err != nil {
			return nil, err
		}
		if v := c.spec.Mapping.Version; out[v] {
			return refusal("/mapping/version", "version %d is out of force: offerlog redo mapping-version puts it back; or set mapping.version to %d", v, versions[0]+1), nil
		}
	}
	changed, refused, err := feed.Apply(ctx, tx, c.spec, e.key.Delivery, st.hold(e).RecordedAt)
	if err != nil || refused != nil || !changed {
		return refused, err
	}
	if st.registry, err = feed.Current(ctx, tx, st.registry); err != nil { // for the commands that follow in the batch
		return nil, err
	}
	if c.spec.Mode == feed.ModeSnapshot {
		if err := snapshot.Begin(ctx, tx, decision.Account{Tenant: c.spec.Tenant, Name: c.spec.Account}); err != nil {
			return nil, err
		}
	}
	return nil, st.redrive(ctx, tx, e, c.spec.Accepts.Source, c.spec.Accepts.Topics)
}

// A tokenCreate makes a token of the tenant known.
type tokenCreate struct {
	tenant string
	grant  token.Grant
}

func readTokenCreate(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	if fault := Conforms(ev.Type, ev.Data); fault != nil {
		return nil, fault
	}
	g, err := token.ParseGrant(ev.Data)
	if err != nil {
		return nil, refusal("", "%v", err)
	}
	return &tokenCreate{tenant, g}, nil
}

func (c *tokenCreate) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	return token.Create(ctx, tx, c.tenant, c.grant, e.key.Delivery, st.hold(e).RecordedAt)
}

// A tokenRevoke ends a token of the tenant.
type tokenRevoke struct {
	tenant     string
	revocation token.Revocation
}

func readTokenRevoke(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	if fault := Conforms(ev.Type, ev.Data); fault != nil {
		return nil, fault
	}
	r, err := token.ParseRevocation(ev.Data)
	if err != nil {
		return nil, refusal("", "%v", err)
	}
	return &tokenRevoke{tenant, r}, nil
}

func (c *tokenRevoke) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	return token.Revoke(ctx, tx, c.tenant, c.revocation, e.key.Delivery, st.hold(e).RecordedAt)
}
