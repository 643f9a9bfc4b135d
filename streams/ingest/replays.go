package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/dataref"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
)

// A ReplayStart is the data of a command that has archived deliveries read again.
type ReplayStart struct {
	replay.Selection
	Rate int `json:"rate"` // deliveries a second
}

// A replayStart begins a replay, whose id is that of the command's delivery.
type replayStart struct {
	tenant string
	data   ReplayStart
}

func readReplayStart(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	c, fault := readDecision[ReplayStart](ev)
	if fault != nil {
		return nil, fault
	}
	return &replayStart{tenant, *c}, nil
}

// readDecision reads the data of a command of which somebody will want to know the reason.
func readDecision[T any](ev *delivery.Event) (*T, *offer.Fault) {
	data, fault := readData[T](ev)
	if fault == nil {
		_, _, fault = why(ev)
	}
	return data, fault
}

func (c *replayStart) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	if c.data.Feed != "" && st.registry.Feed(c.tenant, c.data.Feed) == nil {
		return refusal("/feed", "the tenant has no feed %q: offerlog feed list names those that there are", c.data.Feed), nil
	}
	if c.data.Mapping > 0 {
		if fault, err := st.inForce(ctx, tx, c.tenant, c.data.Feed, c.data.Mapping); err != nil || fault != nil {
			return fault, err
		}
	}
	st.began = true
	return nil, replay.Begin(ctx, tx, &replay.Run{Tenant: c.tenant, ID: uuid.UUID(e.key.Delivery), Selection: c.data.Selection, Rate: c.data.Rate,
		Actor: e.item.Event.Attributes[streams.ExtActor], Reason: e.item.Event.Attributes[streams.ExtReason], RecordedAt: st.hold(e).RecordedAt})
}

// A ReplayOf is the data of a command about one replay.
type ReplayOf struct {
	Replay uuid.UUID `json:"replay"`
}

// A replaySet has a replay pause, go on, or end.
type replaySet struct {
	tenant, state string
	id            uuid.UUID
}

func readReplaySet(state string) func(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return func(tenant string, ev *delivery.Event) (command, *offer.Fault) {
		c, fault := readDecision[ReplayOf](ev)
		if fault != nil {
			return nil, fault
		}
		return &replaySet{tenant, state, c.Replay}, nil
	}
}

func (c *replaySet) apply(ctx context.Context, tx pgx.Tx, _ *settlement, _ *event) (*offer.Fault, error) {
	r, ok, err := replay.Lock(ctx, tx, c.tenant, c.id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return refusal("/replay", "the tenant has no replay %s: offerlog replay list names those that there are", c.id), nil
	case r.State == replay.Sent || r.State == replay.Cancelled || r.State == c.state:
		return refusal("/replay", "replay %s is %s already", c.id, r.State), nil
	}
	return nil, replay.Set(ctx, tx, &r, c.state)
}

// A ReplayPage is the data of a command that sends the next references of a replay. Workers write it, each page under an id of its
// own, so that a page which is asked for twice is sent once. One that is asked for during a pause sends nothing, and is asked for
// under another id once the replay goes on.
type ReplayPage struct {
	Replay uuid.UUID `json:"replay"`
	Page   int       `json:"page"`
}

type replayPage struct {
	tenant string
	data   ReplayPage
}

func readReplayPage(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	c, fault := readData[ReplayPage](ev)
	if fault != nil {
		return nil, fault
	}
	return &replayPage{tenant, *c}, nil
}

// maxPage bounds the references of one page: all of them are in one transaction, under the registry's lock.
const maxPage = 1000

// apply sends a page. A replay that is paused or ended, or has sent the page by now, has none to send.
func (c *replayPage) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	r, ok, err := replay.Lock(ctx, tx, c.tenant, c.data.Replay)
	if err != nil {
		return nil, err
	}
	if !ok {
		return refusal("/replay", "the tenant has no replay %s", c.data.Replay), nil
	}
	if r.State != replay.Running || r.Pages+1 != c.data.Page {
		return nil, nil
	}
	refs, last, err := r.Next(ctx, tx, min(r.Rate, maxPage))
	if err != nil {
		return nil, err
	}
	at := st.hold(e).RecordedAt
	if err := replay.Turn(ctx, tx, &r, len(refs), last, at); err != nil {
		return nil, err
	}
	st.pages = append(st.pages, &sentPage{Page: replay.Page{Tenant: r.Tenant, Replay: r.ID, Number: r.Pages, Command: e.key.Delivery, Lane: e.Lane, RecordedAt: at},
		first: len(st.events), n: len(refs)})
	st.ended = st.ended || last
	for i, ref := range refs {
		if i == len(refs)/2 {
			fault.Point("replay.page_half")
		}
		body, err := json.Marshal(Replay{Tenant: r.Tenant, Replay: r.ID, Lane: ref.Lane, Offset: ref.Offset, Item: ref.Item, Release: ref.Release, Row: ref.Row,
			Mapping: r.Selection.Mapping,
			Command: r.ID, Actor: r.Actor, Reason: r.Reason})
		if err != nil {
			return nil, fmt.Errorf("write page %d of replay %s: %w", r.Pages, r.ID, err)
		}
		st.emit(e, outbox.Event{Topic: streams.Replays, Key: offer.JoinKey(r.Tenant, "delivery", ref.Delivery.String()), Type: streams.ReplayWanted,
			ID: offer.Derive("replay", r.Tenant, r.ID.String(), strconv.Itoa(ref.Lane), strconv.FormatInt(ref.Offset, 10), strconv.Itoa(ref.Item)), Body: body})
	}
	return nil, nil
}

// A sentPage is a page with the place of its references in the events of its settlement.
type sentPage struct {
	replay.Page
	first, n int
}

// recordPages stores what was sent of replays, once it is numbered.
func (st *settlement) recordPages(ctx context.Context, tx pgx.Tx) error {
	for _, p := range st.pages {
		if p.n > 0 {
			p.FirstSeq, p.LastSeq = st.events[p.first].Seq, st.events[p.first+p.n-1].Seq
		}
		if err := replay.Record(ctx, tx, &p.Page); err != nil {
			return err
		}
	}
	return nil
}

// Times of the pages of replays.
const (
	turnEvery  = 100 * time.Millisecond // for pages that are due
	askAgain   = 5 * time.Second        // for one that nobody has sent
	askTimeout = 10 * time.Second
)

// turnPages asks for the pages of replays that are due, where this worker has the partition of commands. It does not send them:
// each is a command, so that it happens once, in the log's order.
func (w *worker) turnPages(ctx context.Context, src *source) error {
	if !src.reads(streams.Commands, 0) || time.Since(w.turnedAt) < turnEvery {
		return nil
	}
	w.turnedAt = time.Now()
	var due []replay.Due
	err := postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		due, err = replay.Pages(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	var records []*kgo.Record
	asked := map[replay.Due]time.Time{}
	for _, d := range due {
		if at, ok := w.asked[d]; ok && time.Since(at) < askAgain {
			asked[d] = at
			continue
		}
		rec, err := pageEvent(d)
		if err != nil {
			return err
		}
		rec.Topic = w.cluster.Topic(rec.Topic)
		records = append(records, rec)
		asked[d] = time.Now()
	}
	w.asked = asked
	if len(records) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := src.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		w.log.Warn("cannot ask for a page of a replay, trying again", "error", err)
	}
	return nil
}

// pageEvent is the command for a page. Its id follows from the page, and from how often the replay was resumed.
func pageEvent(d replay.Due) (*kgo.Record, error) {
	ev := cloudevents.NewEvent()
	ev.SetID(offer.Derive("replay-page", d.Tenant, d.ID.String(), strconv.Itoa(d.Page), strconv.Itoa(d.Resumed)).String())
	ev.SetSource(streams.EventSource)
	ev.SetType(streams.ReplayPageType)
	ev.SetExtension(streams.ExtTenant, d.Tenant)
	if err := ev.SetData(cloudevents.ApplicationJSON, ReplayPage{d.ID, d.Page}); err != nil {
		return nil, fmt.Errorf("write page %d of replay %s: %w", d.Page, d.ID, err)
	}
	return delivery.Encode(ev, streams.Commands, []byte(d.Tenant))
}

// maxLoaded bounds the archived payloads that a batch has in memory: the others are read from files.
const maxLoaded = 32 << 20

// loadEvidence reads an archived event, a large payload into a file. loaded counts what the batch has in memory. What can no longer
// be read is a fault; any other error means that the archive is out of reach.
func (w *worker) loadEvidence(ctx context.Context, e *event, tenant string, ref archive.Ref, offset int64, item int, loaded *int64) (ev delivery.Event, gone *offer.Fault, err error) {
	c, err := w.archive.Open(ctx, tenant, ref, offset, item)
	if err != nil {
		return ev, lost(err), unlessLost(err)
	}
	defer func() { _ = c.Close() }() // it was only read
	var payload []byte
	if c.Length > largeBytes || *loaded+c.Length > maxLoaded {
		e.data, err = w.toFile(c)
	} else {
		payload, err = io.ReadAll(c)
		*loaded += c.Length
	}
	if err != nil {
		return ev, lost(err), unlessLost(err)
	}
	if ev, err = delivery.FromEnvelope(c.Envelope, payload); err != nil {
		return ev, nil, err
	}
	e.item.Raw = payload
	return ev, nil, nil
}

// toFile reads a payload into a file.
func (w *worker) toFile(c *archive.Content) (_ *dataref.File, err error) {
	file, err := os.CreateTemp(w.cfg.Spool, "replay-*")
	if err != nil {
		return nil, &spoolError{err}
	}
	d := &dataref.File{Path: file.Name(), Length: c.Length, Sum: c.Sum}
	_, err = io.Copy(spoolWriter{file}, c)
	if closed := file.Close(); err == nil && closed != nil {
		err = &spoolError{closed}
	}
	if err != nil {
		_ = d.Remove() // what stays goes with the folder
		return nil, err
	}
	return d, nil
}

// A spoolWriter tells what goes wrong with a file from what goes wrong with what is written to it.
type spoolWriter struct{ file *os.File }

func (s spoolWriter) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if err != nil {
		err = &spoolError{err}
	}
	return n, err
}

// lost says why evidence can be read no more, of an error of the archive; nil: it is only out of reach.
func lost(err error) *offer.Fault {
	var detail string
	if _, is := errors.AsType[*archive.ShreddedError](err); is {
		detail = "artifact_shredded"
	} else if damaged, is := errors.AsType[*archive.DigestError](err); is {
		detail = damaged.Code()
	} else if errors.Is(err, fs.ErrNotExist) {
		detail = "artifact_missing"
	} else {
		return nil
	}
	return &offer.Fault{Reason: offer.ReasonEvidenceUnavailable, Detail: detail, Message: err.Error()}
}

// unlessLost is an error of the archive that says nothing of the evidence.
func unlessLost(err error) error {
	if _, local := errors.AsType[*spoolError](err); err == nil || local {
		return err
	}
	if lost(err) != nil {
		return nil //nolint:nilerr // it is told as a fault
	}
	return &archiveError{err}
}
