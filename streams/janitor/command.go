package janitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
)

// errUntold reports a command that could not be written; it is told again at the next look.
var errUntold = errors.New("a command cannot be written")

// actor is who decides what follows from settings and time alone.
const actor = "offerlog"

// tell writes a command of a tenant. Two janitors, or one before and after a crash, write it under one id, so it is carried out once.
func tell(ctx context.Context, write func(context.Context, *kgo.Record) error, id uuid.UUID, tenant, kind, reason string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write command %s: %w", kind, err)
	}
	e := cloudevents.NewEvent()
	e.SetID(id.String())
	e.SetSource(streams.EventSource)
	e.SetType(kind)
	e.SetExtension(streams.ExtTenant, tenant)
	e.SetExtension(streams.ExtActor, actor)
	e.SetExtension(streams.ExtReason, reason)
	e.SetDataContentType(cloudevents.ApplicationJSON)
	e.DataEncoded = body
	record, err := delivery.Encode(e, streams.Commands, []byte(tenant))
	if err != nil {
		return fmt.Errorf("write command %s: %w", kind, err)
	}
	if err := write(ctx, record); err != nil {
		return fmt.Errorf("%w: %s: %w", errUntold, kind, err)
	}
	return nil
}

// collectTombstones has deletions collected that are older than their feeds remember them: those of a feed by one command, as of a
// full hour, so that no more than one an hour is ever needed.
func collectTombstones(ctx context.Context, tx pgx.Tx, now time.Time, write func(context.Context, *kgo.Record) error) error {
	feeds, err := feed.Horizons(ctx, tx)
	if err != nil {
		return err
	}
	horizons := make([]view.Horizon, len(feeds))
	for i, f := range feeds {
		horizons[i] = view.Horizon{Tenant: f.Tenant, Feed: f.Feed, Before: now.Add(-f.Tombstone).Truncate(time.Hour)}
	}
	passed, err := view.Tombstones(ctx, tx, horizons)
	if err != nil {
		return err
	}
	for _, h := range passed {
		before := offer.TimeOf(h.Before)
		id := offer.Derive("collect", h.Tenant, h.Feed, before.Text)
		if err := tell(ctx, write, id, h.Tenant, streams.CollectType, "older than the feed's policy.tombstone_horizon", ingest.Collect{Feed: h.Feed, Before: before}); err != nil {
			return err
		}
	}
	return nil
}

// redrive has data fetched once more that was out of reach, as often and at such distances as package quarantine says.
func redrive(ctx context.Context, tx pgx.Tx, now time.Time, write func(context.Context, *kgo.Record) error) error {
	due, err := quarantine.ListUnreached(ctx, tx, now)
	if err != nil {
		return err
	}
	for _, e := range due {
		try := e.Tries + 1
		id := offer.Derive("redrive", e.Tenant, e.ID.String(), strconv.Itoa(try))
		if err := tell(ctx, write, id, e.Tenant, streams.QuarantineRedriveType, fmt.Sprintf("try %d to fetch the data", try), ingest.Redrive{Entry: e.ID, Try: try}); err != nil {
			return err
		}
	}
	return nil
}
