package run

import (
	"cmp"
	"context"
	_ "embed" // for the statement
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed list.sql
var listSQL string

// A State says how a run stands, as people ask. It is derived whenever somebody looks, and kept nowhere.
type State string

// States, the first that fits.
const (
	StateRejected   State = "rejected"   // an operator has taken it out of the count
	StateHeld       State = "held"       // it is whole, and the brake holds it for an operator to decide
	StateComplete   State = "complete"   // each of its pages is accepted
	StateFailed     State = "failed"     // a page that is missing could not be fetched, or the run as a whole
	StateStalled    State = "stalled"    // nothing has come of it for longer than its feed's policy.run_timeout
	StateIncomplete State = "incomplete" // pages are missing, or nobody has said how many there are
)

// A Document is the JSON form of a run.
type Document struct {
	Tenant       string              `json:"tenant"`
	Feed         string              `json:"feed"`
	Connector    string              `json:"connector"`
	Run          string              `json:"run"` // the run id of its events
	ID           string              `json:"id"`  // by which decisions name it
	State        State               `json:"state"`
	StartedAt    string              `json:"started_at,omitempty"` // as its first started event says
	Credential   string              `json:"credential,omitempty"` // by reference
	PagesAsked   int                 `json:"pages_asked,omitempty"`
	Pages        int                 `json:"pages,omitempty"` // how many it has; absent: nobody has said
	PagesSeen    []int               `json:"pages_seen"`
	PagesMissing []int               `json:"pages_missing"`
	CompletedAt  string              `json:"completed_at,omitempty"` // as its first completed event says, which proves nothing
	Failures     []Failure           `json:"failures"`               // in the order in which they came
	Deliveries   []Delivered         `json:"deliveries"`
	Decisions    []decision.Document `json:"decisions"`
	RecordedAt   string              `json:"recorded_at"`  // of the first that came of it
	LastSeenAt   string              `json:"last_seen_at"` // of the last
	Timeout      string              `json:"timeout"`      // after which silence is a stall
	lastSeen     time.Time
}

// A Failure is what a connector said of a page that it could not fetch.
type Failure struct {
	Page    int    `json:"page,omitempty"` // absent: the run as a whole
	Attempt int    `json:"attempt,omitempty"`
	At      string `json:"at"`
	Error   string `json:"error"`
}

// A Delivered is an accepted delivery of a run.
type Delivered struct {
	Page       int    `json:"page"`
	Delivery   string `json:"delivery"`
	Rejected   int    `json:"rejected"` // rows
	RecordedAt string `json:"recorded_at"`
}

// A Filter narrows List; what is empty matches all.
type Filter struct {
	Feed  string
	Name  string // of the run
	Limit int
}

// List returns runs of the transaction's tenant as they stand at a time, the newest first, each with all that is known of it.
func List(ctx context.Context, q Querier, f Filter, now time.Time) ([]Document, error) {
	list, err := list(ctx, q, f, now)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return list, nil
}

func list(ctx context.Context, q Querier, f Filter, now time.Time) ([]Document, error) {
	rows, err := q.Query(ctx, listSQL, f.Feed, f.Name, f.Limit)
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Document, error) {
		d, id, err := scan(row)
		ids = append(ids, id)
		return d, err
	})
	if err != nil {
		return nil, err
	}
	decisions, err := decision.List(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	for i := range list {
		d := &list[i]
		for j := range decisions {
			if decisions[j].ID == ids[i] {
				d.Decisions = append(d.Decisions, decisions[j].Document())
			}
		}
		d.State = d.state(now)
	}
	return list, nil
}

func scan(row pgx.CollectableRow) (d Document, id uuid.UUID, err error) {
	var (
		recorded           time.Time
		pageList, eventsOf []byte
		pages              []struct {
			Page       int       `json:"page"`
			Pages      int       `json:"pages"`
			Delivery   string    `json:"delivery"`
			Rejected   int       `json:"rejected"`
			RecordedAt time.Time `json:"recorded_at"`
		}
		events []struct {
			Kind       Kind      `json:"kind"`
			At         string    `json:"at"`
			Credential string    `json:"credential"`
			Pages      int       `json:"pages"`
			Page       int       `json:"page"`
			Attempt    int       `json:"attempt"`
			Error      string    `json:"error"`
			RecordedAt time.Time `json:"recorded_at"`
		}
	)
	if err := row.Scan(&d.Tenant, &id, &d.Feed, &d.Run, &recorded, &d.Connector, &d.Timeout, &pageList, &eventsOf); err != nil {
		return d, id, err
	}
	if err := cmp.Or(json.Unmarshal(pageList, &pages), json.Unmarshal(eventsOf, &events)); err != nil {
		return d, id, err
	}
	d.ID, d.RecordedAt, d.lastSeen = id.String(), offer.TimeOf(recorded).Text, recorded
	d.PagesSeen, d.PagesMissing, d.Failures, d.Deliveries, d.Decisions = []int{}, []int{}, []Failure{}, []Delivered{}, []decision.Document{}
	see := func(at time.Time) {
		if at.After(d.lastSeen) {
			d.lastSeen = at
		}
	}
	for _, p := range pages {
		see(p.RecordedAt)
		d.Pages = max(d.Pages, p.Pages)
		d.PagesSeen = append(d.PagesSeen, p.Page)
		d.Deliveries = append(d.Deliveries, Delivered{p.Page, p.Delivery, p.Rejected, offer.TimeOf(p.RecordedAt).Text})
	}
	for _, e := range events {
		see(e.RecordedAt)
		switch e.Kind {
		case Started:
			d.StartedAt, d.Credential, d.PagesAsked = cmp.Or(d.StartedAt, e.At), cmp.Or(d.Credential, e.Credential), max(d.PagesAsked, e.Pages)
		case Completed:
			d.CompletedAt, d.Pages = cmp.Or(d.CompletedAt, e.At), max(d.Pages, e.Pages)
		case Failed:
			d.Failures = append(d.Failures, Failure{e.Page, e.Attempt, e.At, e.Error})
		}
	}
	slices.Sort(d.PagesSeen)
	d.PagesSeen = slices.Compact(d.PagesSeen)
	for page := range d.Pages {
		if _, seen := slices.BinarySearch(d.PagesSeen, page+1); !seen {
			d.PagesMissing = append(d.PagesMissing, page+1)
		}
	}
	d.LastSeenAt = offer.TimeOf(d.lastSeen).Text
	return d, id, nil
}

// state derives how the run stands at a time.
func (d *Document) state(now time.Time) State {
	var last decision.Verdict
	if n := len(d.Decisions); n > 0 {
		last = d.Decisions[n-1].Verdict
	}
	missing := func(f Failure) bool { return f.Page == 0 || !slices.Contains(d.PagesSeen, f.Page) }
	var timeout feed.Duration
	_ = timeout.UnmarshalJSON([]byte(d.Timeout)) // what is none stays 0: nothing stalls then
	switch {
	case last == decision.Rejected:
		return StateRejected
	case last == decision.Braked:
		return StateHeld
	case d.Pages > 0 && len(d.PagesMissing) == 0:
		return StateComplete
	case slices.ContainsFunc(d.Failures, missing):
		return StateFailed
	case timeout > 0 && now.Sub(d.lastSeen) > time.Duration(timeout):
		return StateStalled
	}
	return StateIncomplete
}
