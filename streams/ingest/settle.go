package ingest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/retention"
	"github.com/offerlog/offerlog/pkg/snapshot"
	"github.com/offerlog/offerlog/streams"
)

// A settlement decides what becomes of each event of a batch. It lives for one try of the transaction.
type settlement struct {
	batch    *batch
	registry *feed.Registry // in force, and held by the transaction
	held     []lane.Held    // its sequences grow as numbers are given out
	begin    []int64        // the sequences as they were
	told     []int64        // the sequences after the rows: what is above are events of the outbox

	refused  map[*event]*offer.Fault // commands that the registry refuses
	claimed  map[receipt.Key]bool    // by this transaction
	standing map[receipt.Key]receipt.Receipt

	attempts        []*receipt.Attempt
	events          []outbox.Event
	decisions       []*decision.Decision
	decided         []int // of each decision the place of its event in events
	entries         []*quarantine.Entry
	entryDecisions  []*quarantine.Decision
	entryEvents     []int                                    // of each the place of its event in events; -1: it has none
	superseded      map[offer.ObservationID]bool             // by corrections of this batch
	made            map[offer.DeliveryID][]history.Statement // by corrections of this batch
	pages           []*sentPage                              // of replays
	began, ended    bool                                     // a replay
	versions        map[receipt.Key]int                      // mapping versions that deliveries which are read again were accepted under
	read            map[decision.Subject]bool                // readings that were made,
	corrected       map[*event]bool                          // events that have a delivery read again which a later correction replaces
	decidedReadings map[decision.Subject]bool                // and those of them that decisions tell of: all but first ones
	readBefore      []snapshot.Reading                       // in a shadow: by earlier batches, of which no outcome tells
	resolvedTenants []string
	resolved        []offer.DeliveryID
	gaps            int                                   // rows that skip versions
	runVerdicts     map[decision.Subject]decision.Verdict // that commands of this batch have given runs so far
	shreds          []retention.Receipt                   // of the tenants whose keys go
	results         []*receipt.Attempt                    // that are told
	firstResult     int                                   // the place in events of the first of them
}

func newSettlement(b *batch, held []lane.Held, registry *feed.Registry) *settlement {
	st := &settlement{batch: b, held: held, registry: registry, refused: map[*event]*offer.Fault{}, claimed: map[receipt.Key]bool{}, superseded: map[offer.ObservationID]bool{},
		made: map[offer.DeliveryID][]history.Statement{}, runVerdicts: map[decision.Subject]decision.Verdict{}, read: map[decision.Subject]bool{}, decidedReadings: map[decision.Subject]bool{}, corrected: map[*event]bool{}}
	for _, h := range held {
		st.begin = append(st.begin, h.Sequence)
	}
	return st
}

// hold returns the lane that an event came from.
func (st *settlement) hold(e *event) *lane.Held { return st.lane(e.Lane) }

func (st *settlement) lane(id int) *lane.Held {
	i, _ := slices.BinarySearchFunc(st.held, id, func(h lane.Held, id int) int { return h.Lane - id })
	return &st.held[i]
}

// emit has the relay publish an event, once: on its topic, or on each of its partitions. It is numbered in the lane of the
// event that it follows from, after all rows of the batch.
func (st *settlement) emit(e *event, ev outbox.Event) {
	ev.Lane = e.Lane
	st.events = append(st.events, ev)
}

// decide records a decision that follows from an event, with its number, time and N, and tells it to every partition of
// observations. This transaction holds the lock of the subject, or takes it before it ends.
func (st *settlement) decide(e *event, d decision.Decision) {
	st.decided = append(st.decided, len(st.events))
	st.decisions = append(st.decisions, &d)
	st.emit(e, outbox.Event{Topic: streams.Observations, Broadcast: true, Type: streams.DecisionMade, Key: d.Key()})
}

// decidedHere is the last decision of this batch on a subject, which history does not hold yet; nil: there is none.
func (st *settlement) decidedHere(of decision.Subject) *decision.Decision {
	for _, d := range slices.Backward(st.decisions) {
		if d.Subject == of {
			return d
		}
	}
	return nil
}

// decideCommands asks each new command whether it can be carried out. A refused one does not occupy its key, so the refusal
// must be known before the key is claimed; the registry's lock, which this transaction holds, keeps others from coming
// between.
func (st *settlement) decideCommands(ctx context.Context, tx pgx.Tx) error {
	var keys []receipt.Key
	for _, e := range st.batch.events {
		if e.command != nil {
			keys = append(keys, *e.key)
		}
	}
	done, err := receipt.Find(ctx, tx, keys)
	if err != nil {
		return err
	}
	for _, e := range st.batch.events {
		if e.command == nil {
			continue
		}
		if _, known := done[*e.key]; known {
			continue
		}
		refusal, err := e.command.apply(ctx, tx, st, e)
		if err != nil {
			return err
		}
		if refusal != nil {
			st.refused[e] = refusal
			continue
		}
		done[*e.key] = receipt.Receipt{}
	}
	return nil
}

// faultOf is why an event cannot be taken, or nil.
func (st *settlement) faultOf(e *event) *offer.Fault {
	if f := st.refused[e]; f != nil {
		return f
	}
	return e.fault
}

// claimReceipts takes the keys of the events that can be taken, the lowest place of each key first, and finds what stands
// for all others.
func (st *settlement) claimReceipts(ctx context.Context, tx pgx.Tx) error {
	var (
		claims []receipt.Receipt
		rest   []receipt.Key
		first  = map[receipt.Key]receipt.Place{}
	)
	for _, e := range st.batch.events {
		if e.key == nil {
			continue
		}
		if _, taken := first[*e.key]; !taken && st.faultOf(e) == nil && !e.readsAgain() {
			first[*e.key] = e.Place
			claims = append(claims, receipt.Receipt{Key: *e.key, Fingerprint: e.fingerprint(), Place: e.Place})
		}
	}
	var err error
	if st.standing, err = receipt.Claim(ctx, tx, claims); err != nil {
		return err
	}
	for k, place := range first {
		st.claimed[k] = st.standing[k].Place == place
	}
	// Receipts are looked up for every delivery, also for one that can no longer be mapped.
	for _, e := range st.batch.events {
		if e.key != nil && (st.faultOf(e) != nil || e.readsAgain()) {
			if _, ok := st.standing[*e.key]; !ok {
				rest = append(rest, *e.key)
			}
		}
	}
	more, err := receipt.Find(ctx, tx, rest)
	if err != nil {
		return err
	}
	for k, r := range more {
		st.standing[k] = r
	}
	for _, e := range st.batch.events {
		if e.key == nil || e.feed == nil || e.unread || e.readsAgain() {
			continue
		}
		r, ok := st.standing[*e.key]
		if st.claimed[*e.key] {
			if r.Place == e.Place && !e.archived {
				return errReadAgain // it was taken for a repeat of what has expired since
			}
			continue
		}
		// Payloads compare under the canonicalization that is stored with the first one, whatever the feed says by now.
		otherForm := ok && r.Fingerprint.Canonicalization != e.fingerprint().Canonicalization && e.asked != r.Fingerprint.Canonicalization &&
			e.kind == "" && r.Fingerprint.Canonicalization != offer.CanonicalRun // a delivery and an event of a run have no common form
		// What was taken for a repeat of another event of this batch contradicts one that came in between: it is evidence.
		notKept := ok && r.Fingerprint != e.fingerprint() && !e.archived && (e.item.Raw != nil || e.data != nil)
		if otherForm || notKept {
			return errReadAgain
		}
	}
	return nil
}

// settleEvents gives every event its outcome, in the order of places.
func (st *settlement) settleEvents() {
	for _, e := range st.batch.events {
		st.attempts = append(st.attempts, st.attempt(e))
	}
}

// settleRows gives the rows of accepted deliveries their results, deals out the numbers, and appends what is new to history:
// so many rows at once, so that what a transaction holds in memory does not grow with its deliveries. A chunk finds in
// history what those before it have appended, so its size decides nothing.
func (st *settlement) settleRows(ctx context.Context, tx pgx.Tx, chunkRows int) error {
	c := newChunk()
	for i, e := range st.batch.events {
		at := st.attempts[i]
		if at.Outcome != offer.Accepted && at.Outcome != offer.Reread || e.feed == nil {
			continue
		}
		if e.corrects() { // it looks at what earlier ones have stored, also of this batch
			if err := st.settleChunk(ctx, tx, c); err != nil {
				return err
			}
			c = newChunk()
			if err := st.supersedeDelivery(ctx, tx, e); err != nil {
				return err
			}
		}
		e.earliest = math.MaxInt64
		for some, err := range e.rows() {
			if err != nil {
				return &spoolError{err}
			}
			for j := range some {
				c.add(e, at, &some[j])
				if len(c.rows) < chunkRows {
					continue
				}
				if err := st.settleChunk(ctx, tx, c); err != nil {
					return err
				}
				c = newChunk()
			}
		}
	}
	return st.settleChunk(ctx, tx, c)
}

// A chunk is some rows in their order, and what becomes of them.
type chunk struct {
	rows         []*history.Observation
	of           []pendingRow // by row
	here         *survey
	observations []*history.Observation
	sightings    []history.Sighting
}

func newChunk() *chunk { return &chunk{here: newSurvey()} }

func (c *chunk) add(e *event, at *receipt.Attempt, row *offer.Row) {
	o := history.New(e.feed.Name, offer.Key{Tenant: e.tenant, Account: e.feed.Account, Record: row.Record}, e.feed.MappingVersion, e.stated(), e.weak(), row)
	o.Delivery, o.RetrievedAt = e.key.Delivery, e.retrieved
	if of := e.runOf(); of != nil {
		o.Run, o.Held = of.ID, e.held()
	}
	e.earliest = min(e.earliest, o.ObservedAt.Nanos)
	c.rows, c.of = append(c.rows, &o), append(c.of, pendingRow{e, at, row.Warnings})
}

// A pendingRow is a valid row of an accepted delivery.
type pendingRow struct {
	e        *event
	at       *receipt.Attempt
	warnings []string
}

func (st *settlement) settleChunk(ctx context.Context, tx pgx.Tx, c *chunk) error {
	if len(c.rows) > 0 {
		standings, err := history.Look(ctx, tx, c.rows)
		if err != nil {
			return err
		}
		if err := st.correct(ctx, tx, c, standings); err != nil {
			return err
		}
		for i, o := range c.rows {
			st.settleRow(c, c.of[i], o, &standings[i])
			if c.of[i].e.overfull != nil {
				return errReadAgain // and set aside whole
			}
		}
	}
	if err := history.Append(ctx, tx, c.observations); err != nil {
		return err // a lost race: the numbers no longer fit, and the whole transaction is done again
	}
	fault.Point("ingest.rows_half")
	return history.Sight(ctx, tx, c.sightings)
}

// settleRow decides one row against history and against the lower rows of its chunk. Where several results fit, conflict
// comes before duplicate before ambiguous before old.
func (st *settlement) settleRow(c *chunk, p pendingRow, o *history.Observation, was *history.Standing) {
	// Its key was free, so what it has claimed before was claimed under a receipt that has expired.
	p.at.BeyondHorizon = p.at.BeyondHorizon || was.Claimed && p.at.Outcome == offer.Accepted
	for _, w := range p.warnings {
		p.at.Warn(receipt.Warning{Row: o.Row, Warning: w})
	}
	same, known := was.Content, was.Known
	if first := c.here.byID[o.ID()]; first != nil {
		same, known = first.Rank.Content, true
	}
	if known && same != o.Rank.Content {
		st.reject(p, o)
		return
	}
	h := st.hold(p.e)
	h.Sequence++
	o.Lane, o.Seq, o.RecordedAt = h.Lane, h.Sequence, h.RecordedAt
	o.Due = due(p.e.feed, o)
	o.Unresolved = p.e.feed.Policy.Item == feed.ItemResolved && !o.Content.Deleted && !o.Content.Item.Resolved()
	if p.at.FirstSeq == 0 {
		p.at.FirstSeq = o.Seq
	}
	p.at.LastSeq = o.Seq
	if known {
		p.at.Results.Duplicate++
		c.sightings = append(c.sightings, history.Sighting{Claim: o.Claim, Of: o})
		return
	}
	switch {
	case was.Contradicted || c.here.contradicts(o):
		p.at.Results.AmbiguousOrder++
	case was.HasNewest && o.Rank.CompareOrder(was.Newest) < 0 || c.here.newer(o):
		p.at.Results.Old++
	default:
		p.at.Results.Saved++
		st.tellGap(p, o, was, c.here)
	}
	if p.e.corrects() {
		st.made[o.Delivery] = append(st.made[o.Delivery], history.Statement{Offer: o.Offer, ID: o.ID()})
	}
	if st.corrected[p.e] {
		st.supersede(p.e, o.Offer, o.ID())
	}
	c.here.add(o)
	c.observations = append(c.observations, o)
}

// warningGap is about a row that skips versions.
const warningGap = "version_gap"

// tellGap warns of versions that are missing below a row that ranks highest, where the source numbers without gaps. What is
// below the first version that was seen is not missing: nobody knows where the source began.
func (st *settlement) tellGap(p pendingRow, o *history.Observation, was *history.Standing, here *survey) {
	before := was.Newest
	if r, ok := here.newest[o.Offer]; ok && r.CompareOrder(before) > 0 {
		before = r
	}
	if !p.e.feed.Sequential || !before.Strong || o.SourceVersion <= before.Order+1 {
		return
	}
	st.gaps++
	gap := history.Gap{First: before.Order + 1, Last: o.SourceVersion - 1}
	p.at.Warn(receipt.Warning{Row: o.Row, Warning: warningGap, Detail: gap.String()})
}

// reject sets a row aside whose revision stands with other content. What stands is not touched.
func (st *settlement) reject(p pendingRow, o *history.Observation) {
	id, content := o.ID(), o.Content
	f := offer.Fault{Reason: offer.ReasonRevisionConflict, Row: o.Row, Message: "revision " + o.RevisionKey + " of " + o.Key.Record + " is known with other content"}
	p.at.Results.Rejected++
	p.at.Rejections = append(p.at.Rejections, f)
	if len(p.at.Rejections) > maxRejected {
		p.e.overfull = &offer.Fault{Reason: offer.ReasonMappingLimit, Message: fmt.Sprintf("%d rows or more are invalid or contradict what stands, at most %d are told one by one; the first: %s",
			len(p.at.Rejections), maxRejected, p.at.Rejections[0].Error())}
	}
	entry := st.entry(p.e, f)
	entry.Content, entry.Observation = &content, &id
	st.entries = append(st.entries, entry)
}

// attempt decides an event, apart from its rows.
func (st *settlement) attempt(e *event) *receipt.Attempt {
	ev := &e.item.Event
	at := &receipt.Attempt{Place: e.Place, Tenant: e.tenant, EventSource: clean(ev.Source), EventID: clean(ev.ID), EventType: clean(ev.Type), Declared: e.replay.Declared,
		Outcome: offer.Accepted, Archived: e.archived, Run: clean(e.run), Page: e.page, RetrievedAt: e.retrieved, RecordedAt: st.hold(e).RecordedAt}
	if e.feed != nil {
		at.Feed = e.feed.Name
	}
	if e.Item < 0 {
		return at
	}
	at.Fingerprint = e.fingerprint()
	if e.key != nil {
		at.Delivery = &e.key.Delivery
		first, ok := st.standing[*e.key]
		if e.readsAgain() {
			st.readAgain(e, at, first, ok)
			return at
		}
		ok = ok && !e.unread
		if ok && st.claimed[*e.key] && e.Compare(first.Place) <= 0 {
			ok = false // this is the first, or a refusal before it
		}
		if ok {
			at.Accepted = &first.Place
			if first.Fingerprint == e.fingerprint() {
				at.Outcome, at.Archived = offer.Duplicate, false
				return at
			}
			st.setAside(e, at, &offer.Fault{Reason: offer.ReasonReplayPayloadMismatch, Message: "the payload differs from the one that was accepted under this id"})
			return at
		}
	}
	if f := st.faultOf(e); f != nil {
		st.setAside(e, at, f)
		return at
	}
	if e.key != nil {
		st.resolvedTenants, st.resolved = append(st.resolvedTenants, e.tenant), append(st.resolved, e.key.Delivery)
	}
	if e.feed == nil || e.kind != "" {
		return at // a command, or an event of a run
	}
	st.tally(e, at)
	return at
}

// tally counts the rows of a delivery that is taken, and sets those aside that are invalid.
func (st *settlement) tally(e *event, at *receipt.Attempt) {
	at.MappingVersion, at.Rows = e.feed.MappingVersion, e.mapped.RowCount
	at.Results.Duplicate, at.Results.Rejected = e.mapped.Repeated, len(e.mapped.Rejected)
	for _, f := range e.mapped.Rejected {
		f.Message, f.Path = clean(f.Message), clean(f.Path)
		at.Rejections = append(at.Rejections, f)
		st.entries = append(st.entries, st.entry(e, f))
	}
}

func (st *settlement) setAside(e *event, at *receipt.Attempt, f *offer.Fault) {
	g := *f
	g.Message, g.Path = clean(g.Message), clean(g.Path)
	at.Outcome, at.Fault = offer.Quarantined, &g
	whole := g
	whole.Row = 0 // the entry is the delivery's
	if g.Row > 0 && whole.Path == "" {
		whole.Message = g.Error()
	}
	st.entries = append(st.entries, st.entry(e, whole))
}

func (st *settlement) entry(e *event, f offer.Fault) *quarantine.Entry {
	q := &quarantine.Entry{Tenant: e.tenant, Fault: f, EventSource: clean(e.item.Event.Source), EventID: clean(e.item.Event.ID),
		Fingerprint: e.fingerprint(), Lane: e.Lane, Offset: e.Offset, Item: e.Item, Archived: e.archived, RecordedAt: st.hold(e).RecordedAt}
	if e.feed != nil {
		q.Feed = e.feed.Name
	}
	if e.key != nil {
		q.Delivery = &e.key.Delivery
	}
	if first, ok := st.standing[e.receiptKey()]; ok && e.readsAgain() { // whose evidence it is
		q.Lane, q.Offset, q.Item, q.Archived, q.Reading = first.Lane, first.Offset, first.Item, true, e.ref.Mapping
	}
	return q
}

// ranges are the numbers given to rows, one range a lane: those of a batch are contiguous.
func (st *settlement) ranges() []outbox.Range {
	var ranges []outbox.Range
	for i, h := range st.held {
		if st.told[i] > st.begin[i] {
			ranges = append(ranges, outbox.Range{Lane: h.Lane, First: st.begin[i] + 1, Last: st.told[i], RecordedAt: h.RecordedAt})
		}
	}
	return ranges
}

// recordDecisions stores what was decided, once its events are numbered, and writes these.
func (st *settlement) recordDecisions(ctx context.Context, tx pgx.Tx) error {
	for i, d := range st.decisions {
		ev := &st.events[st.decided[i]]
		d.Lane, d.Seq, d.RecordedAt = ev.Lane, ev.Seq, ev.RecordedAt
	}
	if err := decision.Record(ctx, tx, st.decisions); err != nil {
		return err
	}
	for i, d := range st.decisions {
		ev := &st.events[st.decided[i]]
		body, err := d.Body()
		if err != nil {
			return fmt.Errorf("write decision %d on %s: %w", d.N, d.ID, err)
		}
		ev.ID, ev.Body = d.EventID(), body
	}
	return nil
}

// number gives the events that the batch emits the numbers after those of its rows.
func (st *settlement) number() {
	for _, h := range st.held {
		st.told = append(st.told, h.Sequence)
	}
	for i := range st.events {
		ev := &st.events[i]
		h := st.lane(ev.Lane)
		h.Sequence++
		ev.Seq, ev.RecordedAt = h.Sequence, h.RecordedAt
	}
	for i, at := range st.results {
		at.ResultSeq = st.events[st.firstResult+i].Seq
	}
}

func (st *settlement) outcomes() map[offer.Outcome]int {
	n := map[offer.Outcome]int{}
	for _, a := range st.attempts {
		n[a.Outcome]++
	}
	return n
}

// clean makes text of a refused event fit for the database, which takes neither NUL nor broken UTF-8. The bytes as they
// were are in the archive.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// A survey is what the lower rows of a chunk add to history.
type survey struct {
	byID    map[offer.ObservationID]*history.Observation
	newest  map[offer.OfferID]offer.Rank
	atOrder map[order][]*history.Observation
}

type order struct {
	offer  offer.OfferID
	strong bool
	order  int64
}

func newSurvey() *survey {
	return &survey{map[offer.ObservationID]*history.Observation{}, map[offer.OfferID]offer.Rank{}, map[order][]*history.Observation{}}
}

func (s *survey) add(o *history.Observation) {
	s.byID[o.ID()] = o
	if r, ok := s.newest[o.Offer]; !ok || o.Rank.CompareOrder(r) > 0 {
		s.newest[o.Offer] = o.Rank
	}
	at := order{o.Offer, o.Rank.Strong, o.Rank.Order}
	s.atOrder[at] = append(s.atOrder[at], o)
}

// newer reports whether a lower row of the chunk ranks above o.
func (s *survey) newer(o *history.Observation) bool {
	r, ok := s.newest[o.Offer]
	return ok && o.Rank.CompareOrder(r) < 0
}

// contradicts reports whether a lower row of the chunk says something else at the same order.
func (s *survey) contradicts(o *history.Observation) bool {
	return slices.ContainsFunc(s.atOrder[order{o.Offer, o.Rank.Strong, o.Rank.Order}], func(p *history.Observation) bool {
		return p.RevisionKey != o.RevisionKey && p.Rank.Content != o.Rank.Content
	})
}
