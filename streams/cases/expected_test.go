package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// An expected is what must come out of a case.
type expected struct {
	Deliveries        []delivery                 `json:"deliveries"`
	Observations      *[]document                `json:"observations"`
	Current           *[]document                `json:"current"`
	CurrentOneOf      *[]document                `json:"current_one_of"`
	Tombstones        *[]document                `json:"tombstones"`
	After             []portion                  `json:"after"`
	SameForEveryOrder []string                   `json:"same_for_every_order"`
	Attempts          map[string]int             `json:"attempts"`
	Final             map[string]json.RawMessage `json:"final"`
}

// A portion is the view after a number of records.
type portion struct {
	Events     int         `json:"events"`
	Current    *[]document `json:"current"`
	Tombstones *[]document `json:"tombstones"`
}

// A document is an observation or an offer, as JSON.
type document map[string]any

// A delivery is what must become of one event.
type delivery struct {
	Event        int               `json:"event"`
	Item         int               `json:"item"`  // in a batch
	Items        *int              `json:"items"` // how many events a batch holds
	Outcome      offer.Outcome     `json:"outcome"`
	Reason       string            `json:"reason"`
	Detail       string            `json:"detail"`
	RowsRejected []rejection       `json:"rows_rejected"`
	Results      json.RawMessage   `json:"results"`
	Warnings     []receipt.Warning `json:"warnings"`
	Held         bool              `json:"held"`
	Flags        []string          `json:"flags"`
}

type rejection struct {
	Row    int    `json:"row"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// A place is where an event stands in the log.
type place struct {
	topic     string
	partition int32
	offset    int64
	item      int
}

// An outcome is what offerlog stored of an event.
type outcome struct {
	place
	id           string
	outcome      offer.Outcome
	reason       string
	detail       string
	rows         int
	results      offer.Results
	rowsRejected []rejection
	warnings     []receipt.Warning
	held         bool
	flags        []string
}

// outcomes reads what became of every event, by place.
func outcomes(p *pipeline.Pipeline) (map[place]outcome, error) {
	found := map[place]outcome{}
	ctx, cancel := context.WithTimeout(context.Background(), pipeline.Patience)
	defer cancel()
	err := postgres.InTx(ctx, p.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT l.topic, l.partition, o."offset", o.item, coalesce(o.event_id, ''), o.outcome, coalesce(o.reason, ''), coalesce(o.detail, ''),
			       o.rows, o.saved, o.duplicate, o.old, o.ambiguous_order, o.rejected, coalesce(o.rejections, '[]'), coalesce(o.warnings, '[]'),
			       coalesce((SELECT coalesce((SELECT d.standing FROM decision AS d WHERE (d.tenant, d.subject) = (g.tenant, g.run) ORDER BY d.n DESC LIMIT 1),
			                                 CASE WHEN g.held THEN 0 ELSE 1 END)
			                   FROM run_page AS g
			                  WHERE (g.tenant, g.delivery) = (o.tenant, o.delivery)), 2),
			       CASE WHEN o.beyond_horizon THEN ARRAY['beyond_horizon'] END
			  FROM outcome AS o
			  JOIN lane AS l ON l.id = o.lane`)
		if err != nil {
			return err
		}
		var (
			o        outcome
			standing int
		)
		_, err = pgx.ForEachRow(rows, []any{&o.topic, &o.partition, &o.offset, &o.item, &o.id, &o.outcome, &o.reason, &o.detail, &o.rows,
			&o.results.Saved, &o.results.Duplicate, &o.results.Old, &o.results.AmbiguousOrder, &o.results.Rejected, &o.rowsRejected, &o.warnings, &standing, &o.flags}, func() error {
			if o.held = standing == 0; standing == 1 {
				o.flags = append(o.flags, offer.FlagPartialRun)
			}
			found[o.place] = o
			o = outcome{}
			return nil
		})
		return err
	})
	return found, err
}

// checkDeliveries compares what became of the events with what must.
func checkDeliveries(p *pipeline.Pipeline, want []delivery, published map[int]*kgo.Record) error {
	got, err := outcomes(p)
	if err != nil {
		return err
	}
	for _, d := range want {
		r := published[d.Event]
		if r == nil {
			return fmt.Errorf("event %d was never published", d.Event)
		}
		at := place{p.Cluster.Name(r.Topic), r.Partition, r.Offset, d.Item}
		if d.Items != nil && *d.Items == 0 {
			at.item = -1
		}
		o, ok := got[at]
		if !ok {
			return fmt.Errorf("event %d has no outcome", d.Event)
		}
		if err := d.check(o); err != nil {
			return fmt.Errorf("event %d: %w", d.Event, err)
		}
	}
	return nil
}

func (d delivery) check(o outcome) error {
	if o.outcome != d.Outcome || o.reason != d.Reason || d.Detail != "" && o.detail != d.Detail {
		return fmt.Errorf("got %s %s %s, want %s %s %s", o.outcome, o.reason, o.detail, d.Outcome, d.Reason, d.Detail)
	}
	if o.held != d.Held || !slices.Equal(o.flags, d.Flags) {
		return fmt.Errorf("got held %v, flags %v, want %v, %v", o.held, o.flags, d.Held, d.Flags)
	}
	if d.Outcome != offer.Accepted {
		return nil
	}
	rejected := slices.Clone(o.rowsRejected)
	for i, r := range d.RowsRejected {
		if r.Detail == "" && i < len(rejected) {
			rejected[i].Detail = ""
		}
	}
	if !slices.Equal(rejected, d.RowsRejected) {
		return fmt.Errorf("got rejected rows %v, want %v", o.rowsRejected, d.RowsRejected)
	}
	if !slices.Equal(o.warnings, d.Warnings) {
		return fmt.Errorf("got warnings %v, want %v", o.warnings, d.Warnings)
	}
	want := offer.Results{Saved: o.rows - len(d.RowsRejected)}
	if len(d.Results) > 0 {
		if string(d.Results) == `"any"` {
			return nil
		}
		want = offer.Results{}
		if err := decode(d.Results, true, &want); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	want.Rejected = len(d.RowsRejected)
	if o.results != want {
		return fmt.Errorf("got results %+v, want %+v", o.results, want)
	}
	return nil
}

// documents turns what offerlog returns into documents.
func documents[T any](list []T) []document {
	docs := make([]document, 0, len(list))
	for _, v := range list {
		var d document
		b, err := json.Marshal(v)
		if err == nil {
			err = decode(b, false, &d)
		}
		if err != nil {
			panic(err) // it is JSON by its type
		}
		docs = append(docs, d)
	}
	return docs
}

// A state is the history and the view of all tenants of a case.
type state struct{ observations, current, tombstones []document }

func stateOf(p *pipeline.Pipeline, tenants []string) (s state) {
	for _, tenant := range tenants {
		s.observations = append(s.observations, documents(p.Observations(tenant))...)
		for _, d := range documents(p.Offers(tenant)) {
			if d["deleted"] == true {
				s.tombstones = append(s.tombstones, d)
			} else {
				s.current = append(s.current, d)
			}
		}
	}
	return s
}

// without drops the documents of records.
func (s state) without(records map[string]bool) state {
	drop := func(docs []document) []document {
		return slices.DeleteFunc(docs, func(d document) bool { record, _ := d["source_record"].(string); return records[record] })
	}
	return state{drop(s.observations), drop(s.current), drop(s.tombstones)}
}

// check compares the state with the parts that are expected.
func (s state) check(w *expected) error {
	for _, part := range []struct {
		name string
		got  []document
		want *[]document
	}{{"observations", s.observations, w.Observations}, {"current", s.current, w.Current}, {"tombstones", s.tombstones, w.Tombstones}} {
		if part.want == nil {
			continue
		}
		if err := sameSet(part.got, *part.want); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if w.CurrentOneOf == nil {
		return nil
	}
	for _, want := range *w.CurrentOneOf {
		if sameSet(s.current, []document{want}) == nil {
			return nil
		}
	}
	return fmt.Errorf("current: got %s, want one of %s", text(s.current), text(*w.CurrentOneOf))
}

// sameSet compares without order, by the fields that are wanted. What is wanted twice must be there twice.
func sameSet(got, want []document) error {
	taken := make([]int, len(got)) // by whom of want, plus one
	var place func(w int, tried []bool) bool
	place = func(w int, tried []bool) bool {
		for g := range got {
			if tried[g] || !holds(got[g], whole(want[w])) {
				continue
			}
			tried[g] = true
			if taken[g] == 0 || place(taken[g]-1, tried) {
				taken[g] = w + 1
				return true
			}
		}
		return false
	}
	for w := range want {
		if !place(w, make([]bool, len(got))) {
			return fmt.Errorf("want %s, not among %s", text(want[w]), text(got))
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("got %d, want %d: %s", len(got), len(want), text(got))
	}
	return nil
}

// whole is a wanted document with the tenant that its absence means.
func whole(d document) document {
	if _, ok := d["tenant"]; ok {
		return d
	}
	d = maps.Clone(d)
	d["tenant"] = usualTenant
	return d
}

// holds reports whether got has what want has: in objects its members, everything else as it is. Null is absent.
func holds(got, want any) bool {
	if d, ok := got.(document); ok {
		got = map[string]any(d)
	}
	if d, ok := want.(document); ok {
		want = map[string]any(d)
	}
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok && len(want) > 0 {
			return false
		}
		for name, v := range want {
			if !holds(object[name], v) {
				return false
			}
		}
		return true
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(list, want, holds)
	}
	return text(got) == text(want)
}

// normal are the fields that a case can speak of; the others say when and by which delivery something came.
var normal = []string{"tenant", "supplier_account", "source_record", "item", "quantity", "quantity_basis", "price", "currency", "price_breaks",
	"moq", "order_multiple", "lead_time_days", "stock", "valid_from", "valid_until", "observed_at", "source_version", "deleted", "flags"}

// digest is what must not depend on the order of records.
func digest(docs []document) string {
	lines := make([]string, len(docs))
	for i, d := range docs {
		line := document{}
		for _, name := range normal {
			if v, ok := d[name]; ok {
				line[name] = v
			}
		}
		lines[i] = text(line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// part is the part of a state that a case names.
func (s state) part(name string) ([]document, error) {
	switch name {
	case "observations":
		return s.observations, nil
	case "current", "current_one_of":
		return s.current, nil
	case "tombstones":
		return s.tombstones, nil
	}
	return nil, fmt.Errorf("same_for_every_order names %q", name)
}

func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
