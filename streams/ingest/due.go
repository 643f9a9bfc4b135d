package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
)

// due is from when on a claim counts: from the begin of its validity, and where it was observed further ahead than its feed
// allows, as soon as it is no further ahead. 0: at once.
func due(f *feed.Feed, o *history.Observation) (ns int64) {
	if from := o.Content.ValidFrom; !from.IsZero() {
		ns = from.Nanos
	}
	if f.Policy.Ahead(o.ObservedAt.Nanos, o.RecordedAt) {
		ns = max(ns, o.ObservedAt.Nanos-int64(f.Policy.MaxFuture))
	}
	return ns
}

// A Due is the data of the event by which offerlog tells that a moment has come. What becomes of a claim by time alone is
// decided by it, so that a fold of history needs no clock.
type Due struct {
	Moment offer.Time `json:"moment"`

	tenant string
}

func readDue(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	c, fault := readData[Due](ev)
	if fault == nil {
		c.tenant = tenant
	}
	return c, fault
}

// apply decides that the moment has come, unless a later one has. Whoever sends the event, the lane's clock must agree.
func (c *Due) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	if now := st.hold(e).RecordedAt; c.Moment.Time().After(now) {
		return refusal("/moment", "%s has not come: it is %s", c.Moment, offer.TimeOf(now)), nil
	}
	last, err := decision.LastMoment(ctx, tx, c.tenant)
	if err != nil || last != nil && c.Moment.Nanos <= *last {
		return nil, err
	}
	st.decide(e, decision.Decision{Subject: decision.OfMoment(c.tenant, c.Moment.Nanos), Verdict: decision.Due, Standing: decision.Counting,
		Moment: c.Moment.Nanos, Actor: e.item.Event.Attributes[streams.ExtActor], Command: &e.key.Delivery})
	return nil, nil
}

// lookEvery is how often the worker that reads commands looks for claims that have become due.
const lookEvery = time.Second

// tellDue publishes the moments that have come, where this worker is the one that reads commands: the event is a command, so
// that it has one outcome however often it is told. Its id follows from tenant and moment; who dies before it is stored leaves
// nothing behind but another to tell it again.
func (w *worker) tellDue(ctx context.Context, src *source) error {
	if !src.reads(streams.Commands, 0) || time.Since(w.lookedForDue) < lookEvery {
		return nil
	}
	w.lookedForDue = time.Now()
	var moments map[string]int64
	err := postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		moments, err = history.Due(ctx, tx, w.registry.Tenants())
		return err
	})
	if err != nil {
		return err
	}
	for tenant, moment := range moments {
		if told, ok := src.due[tenant]; ok && told >= moment {
			continue // on its way
		}
		rec, err := dueEvent(tenant, moment)
		if err != nil {
			return err
		}
		rec.Topic = w.cluster.Topic(streams.Commands)
		sent, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = src.client.ProduceSync(sent, rec).FirstErr()
		cancel()
		if err != nil {
			w.log.Warn("cannot tell that claims have become due, trying again", "tenant", tenant, "error", err)
			return nil
		}
		src.due[tenant] = moment
	}
	return nil
}

// dueEvent is the event that tells of a moment.
func dueEvent(tenant string, moment int64) (*kgo.Record, error) {
	data, err := json.Marshal(Due{Moment: offer.TimeOf(time.Unix(0, moment))})
	if err != nil {
		return nil, fmt.Errorf("write the event of a moment: %w", err)
	}
	e := cloudevents.NewEvent()
	e.SetID(offer.Derive("due", tenant, strconv.FormatInt(moment, 10)).String())
	e.SetSource(streams.EventSource)
	e.SetType(streams.DueType)
	e.SetExtension(streams.ExtTenant, tenant)
	e.SetExtension(streams.ExtActor, "offerlog")
	e.SetDataContentType(cloudevents.ApplicationJSON)
	e.DataEncoded = data
	return delivery.Encode(e, streams.Commands, []byte(tenant))
}
