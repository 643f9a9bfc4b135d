package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
)

// A Replay is the data of an event of replays: whose evidence is to be read again, by the place of its event, and what is
// wanted, by a release of an entry of quarantine or by a replay of what was accepted. Its event stands in for the one that it names: that one's attributes and payload go the way of a delivery, and what
// becomes of it stands at the place of the replay, with evidence of its own there.
type Replay struct {
	Tenant  string    `json:"tenant"`          // of the evidence
	Entry   uuid.UUID `json:"entry,omitzero"`  // of quarantine, that it answers for
	Replay  uuid.UUID `json:"replay,omitzero"` // or the replay that it is of
	Lane    int       `json:"lane"`
	Offset  int64     `json:"offset"`
	Item    int       `json:"item"`
	Mapping int       `json:"mapping_version,omitempty"` // of a replay: to read it under; 0: it is a repeat
	Release int       `json:"release,omitempty"`         // the correction's number; 0: under the event's own id
	Row     int       `json:"row,omitempty"`             // of a correction: this row alone
	Command uuid.UUID `json:"command"`                   // the delivery that decided it
	Actor   string    `json:"actor"`
	Reason  string    `json:"reason"`
}

func (r *Replay) place() receipt.Place {
	return receipt.Place{Lane: r.Lane, Offset: r.Offset, Item: r.Item}
}

// ofRun reports whether the event is of a replay of archived deliveries; else it answers for an entry of quarantine.
func (r *Replay) ofRun() bool { return r.Replay != uuid.Nil }

// suffix is what a correction has behind the id of what it corrects, and behind the revisions that it states again.
func suffix(n int) string { return ";release=" + strconv.Itoa(n) }

// load puts what replays refer to in their place: once, before anything else is done with the batch.
func (w *worker) load(ctx context.Context, b *batch) error {
	loaded := int64(0)
	for _, e := range b.events {
		if e.topic != streams.Replays || e.from != "" || e.item.Fault != nil {
			continue
		}
		if fault := Conforms(e.item.Event.Type, e.item.Event.Data); fault != nil {
			e.item.Fault = fault
			continue
		}
		r := new(Replay)
		if err := json.Unmarshal(e.item.Event.Data, r); err != nil {
			e.item.Fault = refusal("", "%v", err)
			continue
		}
		var (
			kept receipt.Kept
			ok   bool
		)
		err := postgres.InTx(ctx, w.pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
			kept, ok, err = receipt.KeptAt(ctx, tx, r.Tenant, r.place())
			return err
		})
		if err != nil {
			return err
		}
		if r.ofRun() {
			e.ref = r // its outcome counts, whatever it is
		}
		if err := w.put(ctx, e, r, kept, ok, &loaded); err != nil {
			return err
		}
	}
	return nil
}

// put puts what a reference names in the place of its event; ok is false where its evidence is not kept any more. loaded counts what
// the batch has in memory.
func (w *worker) put(ctx context.Context, e *event, r *Replay, kept receipt.Kept, ok bool, loaded *int64) error {
	if !ok {
		e.item.Fault = &offer.Fault{Reason: offer.ReasonEvidenceUnavailable, Detail: "artifact_removed",
			Message: fmt.Sprintf("no evidence is kept any more of lane %d, offset %d, item %d", r.Lane, r.Offset, r.Item)}
		return nil
	}
	ev, gone, err := w.loadEvidence(ctx, e, r.Tenant, archive.Ref{Name: kept.Object, KeyID: kept.KeyID}, r.Offset, r.Item, loaded)
	if err != nil || gone != nil {
		e.item.Fault = gone
		return err
	}
	if ev.ByReference() && e.length() > 0 { // what was fetched is the evidence, wherever the reference leads by now
		ev.Data, ev.HasData = e.item.Raw, true
	}
	if r.Release > 0 && !r.ofRun() { // what is read again has the correction's id already
		ev.ID += suffix(r.Release)
		ev.Attributes["id"] = ev.ID
	}
	e.ref, e.from, e.fromFeed = r, kept.Topic, kept.Feed
	if !ev.ByReference() || ev.HasData {
		e.retrieved = kept.RetrievedAt // else it is fetched now
	}
	e.item.Event = ev
	return nil
}

// length is that of the event's payload, in bytes.
func (e *event) length() int64 {
	if e.data != nil {
		return e.data.Length
	}
	return int64(len(e.item.Raw))
}

// mayBe reports whether an event may be of a tenant: evidence never changes hands, but for what was nobody's.
func (e *event) mayBe(tenant string) bool {
	return e.ref == nil || e.ref.Tenant == tenant || e.ref.Tenant == offer.SystemTenant
}

// corrects reports whether the event is a correction of a delivery.
func (e *event) corrects() bool { return e.ref != nil && e.ref.Release > 0 }

// stated is the delivery that weak revisions are named by: that of a correction is the one that it corrects.
func (e *event) stated() offer.DeliveryID {
	if !e.corrects() {
		return e.key.Delivery
	}
	return e.correction(0)
}

// correction is the n-th correction of the delivery that the event corrects, or that delivery itself.
func (e *event) correction(n int) offer.DeliveryID {
	key, own, other := e.replay, suffix(e.ref.Release), ""
	if n > 0 {
		other = suffix(n)
	}
	key.EventID = strings.TrimSuffix(key.EventID, own) + other
	if key.Declared != "" {
		key.Declared = strings.TrimSuffix(key.Declared, own) + other
	}
	return key.ID()
}

// only leaves of a delivery's rows the one that is released.
func (e *event) only(row int) {
	r := &e.mapped
	rows, rejected := r.Rows, r.Rejected
	r.Rows, r.Rejected, r.RowCount, r.Repeated = nil, nil, 1, 0
	for i := range rows {
		if rows[i].Number == row {
			r.Rows = rows[i : i+1]
		}
	}
	for i := range rejected {
		if rejected[i].Row == row && e.fault == nil {
			e.fault = &rejected[i]
		}
	}
	if len(r.Rows) == 0 && e.fault == nil && e.spooled == nil {
		e.fault = &offer.Fault{Reason: offer.ReasonSchemaInvalid, Detail: "data_missing", Message: fmt.Sprintf("the delivery has no row %d of its own", row)}
	}
}

// oneOf leaves of chunks of rows the one that is released.
func oneOf(chunks iter.Seq2[[]offer.Row, error], row int) iter.Seq2[[]offer.Row, error] {
	return func(yield func([]offer.Row, error) bool) {
		for rows, err := range chunks {
			rows = slices.DeleteFunc(rows, func(r offer.Row) bool { return r.Number != row })
			if (err != nil || len(rows) > 0) && !yield(rows, err) {
				return
			}
		}
	}
}

// Entries is the data of a command about entries of quarantine.
type Entries struct {
	Entries []uuid.UUID `json:"entries"`
}

// A quarantineDecision releases or rejects entries.
type quarantineDecision struct {
	tenant  string
	verdict quarantine.Verdict
	ids     []uuid.UUID
}

func readReleaseOfEntries(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readEntries(tenant, quarantine.Released, ev)
}

func readRejectOfEntries(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	return readEntries(tenant, quarantine.Rejected, ev)
}

func readEntries(tenant string, v quarantine.Verdict, ev *delivery.Event) (command, *offer.Fault) {
	c, fault := readData[Entries](ev)
	if fault != nil {
		return nil, fault
	}
	if _, _, fault := why(ev); fault != nil {
		return nil, fault
	}
	return &quarantineDecision{tenant, v, c.Entries}, nil
}

func (c *quarantineDecision) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	found, err := quarantine.Lock(ctx, tx, c.tenant, c.ids)
	if err != nil {
		return nil, err
	}
	known := map[uuid.UUID]*quarantine.Entry{}
	for i := range found {
		known[found[i].ID] = &found[i]
	}
	for i, id := range c.ids {
		q := known[id]
		switch {
		case q == nil:
			return refusal(fmt.Sprintf("/entries/%d", i), "the tenant has no entry %s", id), nil
		case q.State != "open" || st.pending(q):
			return refusal(fmt.Sprintf("/entries/%d", i), "entry %s is decided already: it is %s", id, q.State), nil
		case c.verdict == quarantine.Released && q.Feed == "" && q.Tenant != offer.SystemTenant:
			return refusal(fmt.Sprintf("/entries/%d", i), "entry %s is of no feed: mend what it is, a command or the feed that expected it, and send it again", id), nil
		case c.verdict == quarantine.Released && (q.Delivery == nil || !q.Archived):
			return refusal(fmt.Sprintf("/entries/%d", i), "entry %s cannot be released: it is no event that could be read (%s); mend the publisher and send it again", id, q.Fault.Reason), nil
		}
	}
	for _, id := range c.ids {
		if err := st.decideEntry(ctx, tx, e, known[id], c.verdict); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// pending reports whether a command of this batch has decided about an entry.
func (st *settlement) pending(q *quarantine.Entry) bool {
	for _, d := range st.entryDecisions {
		if d.Tenant == q.Tenant && d.Entry == q.ID {
			return true
		}
	}
	return false
}

// decideEntry records what the event of a command decides about an entry; a release, or a re-drive, is an event of replays too.
func (st *settlement) decideEntry(ctx context.Context, tx pgx.Tx, e *event, q *quarantine.Entry, v quarantine.Verdict) error {
	d := &quarantine.Decision{Tenant: q.Tenant, Entry: q.ID, Verdict: v, Delivery: q.Delivery, Actor: e.item.Event.Attributes[streams.ExtActor],
		Reason: e.item.Event.Attributes[streams.ExtReason], Command: e.key.Delivery, RecordedAt: st.hold(e).RecordedAt}
	replayed := -1
	if v != quarantine.Rejected {
		if q.Corrects() {
			last, err := quarantine.Releases(ctx, tx, q.Tenant, *q.Delivery)
			if err != nil {
				return err
			}
			for _, other := range st.entryDecisions { // of this batch
				if other.Tenant == q.Tenant && other.Delivery != nil && *other.Delivery == *q.Delivery {
					last = max(last, other.Release)
				}
			}
			d.Release = last + 1
		}
		body, err := json.Marshal(Replay{Tenant: q.Tenant, Entry: q.ID, Lane: q.Lane, Offset: q.Offset, Item: q.Item, Release: d.Release, Row: q.Fault.Row,
			Command: uuid.UUID(d.Command), Actor: d.Actor, Reason: d.Reason})
		if err != nil {
			return fmt.Errorf("write the replay of entry %s: %w", q.ID, err)
		}
		replayed = len(st.events)
		st.emit(e, outbox.Event{Topic: streams.Replays, Key: offer.JoinKey(q.Tenant, "quarantine", q.ID.String()), Type: streams.ReplayWanted,
			ID: offer.Derive("replay", q.Tenant, q.ID.String(), d.Command.String()), Body: body})
	}
	st.entryDecisions, st.entryEvents = append(st.entryDecisions, d), append(st.entryEvents, replayed)
	return nil
}

// recordEntryDecisions stores what was decided about entries, once its events are numbered.
func (st *settlement) recordEntryDecisions(ctx context.Context, tx pgx.Tx) error {
	for i, d := range st.entryDecisions {
		if at := st.entryEvents[i]; at >= 0 {
			d.Lane, d.Seq = st.events[at].Lane, st.events[at].Seq
		}
	}
	return quarantine.Decide(ctx, tx, st.entryDecisions)
}

// A Redrive is the data of the command that fetches once more what was out of reach.
type Redrive struct {
	Entry uuid.UUID `json:"entry"`
	Try   int       `json:"try"` // from 1; with the entry it names the command

	tenant string
}

func readRedrive(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	c, fault := readData[Redrive](ev)
	if fault != nil {
		return nil, fault
	}
	c.tenant = tenant
	return c, nil
}

// apply sends the entry's event through ingest again, unless somebody has decided about it meanwhile, or it came again by itself.
func (c *Redrive) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	found, err := quarantine.Lock(ctx, tx, c.tenant, []uuid.UUID{c.Entry})
	if err != nil {
		return nil, err
	}
	for i := range found {
		if q := &found[i]; q.State == "open" && q.Fault.Reason == offer.ReasonDatarefUnavailable && q.Archived && q.Delivery != nil && !st.pending(q) {
			return nil, st.decideEntry(ctx, tx, e, q, quarantine.Redriven)
		}
	}
	return nil, nil
}

// maxRedriven is how many entries one command re-drives: what is left waits for the next one, or for a release.
const maxRedriven = 10_000

// redrive sends what no feed expected through ingest again, now that one does.
func (st *settlement) redrive(ctx context.Context, tx pgx.Tx, e *event, source string, topics []string) error {
	entries, err := quarantine.Expected(ctx, tx, source, topics, maxRedriven)
	if err != nil {
		return err
	}
	for i := range entries {
		if q := &entries[i]; q.Archived && !st.pending(q) {
			if err := st.decideEntry(ctx, tx, e, q, quarantine.Redriven); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordReplays stores what the events of replays were about. An entry is settled by an event that was accepted, or, where no
// feed had expected it, by one that a feed expects, whatever became of it there.
func (st *settlement) recordReplays(ctx context.Context, tx pgx.Tx) error {
	var list []quarantine.Replay
	var answered []replay.Answered
	for i, e := range st.batch.events {
		r := e.ref
		if r == nil {
			continue
		}
		done := quarantine.Replay{Tenant: e.tenant, Lane: e.Lane, Offset: e.Offset, EntryTenant: r.Tenant, Entry: r.Entry, Run: r.Replay, Release: r.Release, Row: r.Row,
			OriginLane: r.Lane, OriginOffset: r.Offset, OriginItem: r.Item}
		if r.ofRun() {
			answered = append(answered, replay.Answered{Tenant: r.Tenant, ID: r.Replay, Place: r.place()})
		} else if at := st.attempts[i]; at.Outcome != offer.Quarantined || r.Tenant == offer.SystemTenant && e.tenant != r.Tenant {
			done.Delivery = at.Delivery
		}
		list = append(list, done)
	}
	if err := replay.Answer(ctx, tx, answered); err != nil {
		return err
	}
	return quarantine.Replayed(ctx, tx, list)
}

// correct gives the rows of corrections revisions of their own, where theirs stand, and takes what stands out of the count:
// what the revision says, and what earlier corrections of it say.
func (st *settlement) correct(ctx context.Context, tx pgx.Tx, c *chunk, standings []history.Standing) error {
	open := map[int]string{} // the revision as the source has it, of rows whose own stands
	for i, p := range c.of {
		if p.e.corrects() {
			open[i] = c.rows[i].RevisionKey
		}
	}
	for n := 1; len(open) > 0; n++ {
		var (
			again []*history.Observation
			at    []int
		)
		for i := range c.rows {
			revision, waits := open[i]
			if !waits {
				continue
			}
			o := c.rows[i]
			if !standings[i].Known && c.here.byID[o.ID()] == nil {
				standings[i].Contradicted = false // what it contradicts it supersedes
				delete(open, i)
				continue
			}
			st.supersede(c.of[i].e, o.Offer, o.ID())
			o.Revise(revision + suffix(n))
			again, at = append(again, o), append(at, i)
		}
		if len(again) == 0 {
			return nil
		}
		found, err := history.Look(ctx, tx, again)
		if err != nil {
			return err
		}
		for k, i := range at {
			standings[i] = found[k]
		}
	}
	return nil
}

// supersedeDelivery takes what a delivery and its earlier corrections have claimed out of the count, for its correction as a
// whole.
func (st *settlement) supersedeDelivery(ctx context.Context, tx pgx.Tx, e *event) error {
	if e.ref.Row > 0 {
		return nil // the row's own revision alone
	}
	var deliveries []offer.DeliveryID
	for n := range e.ref.Release {
		deliveries = append(deliveries, e.correction(n))
	}
	made, err := history.Made(ctx, tx, e.tenant, deliveries)
	if err != nil {
		return err
	}
	for _, d := range deliveries {
		made = append(made, st.made[d]...)
	}
	for _, m := range made {
		st.supersede(e, m.Offer, m.ID)
	}
	return nil
}

func (st *settlement) supersede(e *event, offerID offer.OfferID, id offer.ObservationID) {
	if st.superseded[id] {
		return
	}
	st.superseded[id] = true
	command := offer.DeliveryID(e.ref.Command)
	st.decide(e, decision.Decision{Subject: decision.Subject{Tenant: e.tenant, Kind: decision.Observation, ID: uuid.UUID(id)}, Verdict: decision.Superseded,
		Standing: decision.NotCounting, Offer: offerID, Reason: e.ref.Reason, Actor: e.ref.Actor, Command: &command})
}
