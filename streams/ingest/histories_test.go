package ingest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/project"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
	"github.com/offerlog/offerlog/streams/settle"
)

// A step is one event of a history, in one of three phases. Within a phase everything comes at once, twice, and in any order, so that
// nothing may depend on that; what a phase begins with was stored before.
type step struct {
	phase  int
	kind   stepKind
	feed   int  // in feeds
	id     int  // of the delivery that comes, or that is decided about
	order  int  // what comes says it of this version of the source, or of this second
	second bool // it says something else than the first that came of that version
}

type stepKind string

const (
	delivers stepKind = "delivers"
	undoes   stepKind = "undoes"
	redoes   stepKind = "redoes"
	releases stepKind = "releases"
)

func (s step) String() string {
	what := fmt.Sprintf("phase %d: %s %s #%d", s.phase, feeds[s.feed].name, s.kind, s.id)
	if s.kind == delivers {
		what += fmt.Sprintf(", of %d: %s", s.order, s.says())
	}
	return what
}

// feeds serve one account together.
var feeds = []struct {
	name   string
	strong bool // its source numbers its versions
}{{"a", true}, {"b", true}, {"w", false}}

// says is the quantity that a delivery states, or "deleted". That of one version is the same in all first deliveries of a feed; two
// feeds agree on even versions alone.
func (s step) says() string {
	switch {
	case s.second:
		return fmt.Sprint(10*s.order + 5)
	case !feeds[s.feed].strong:
		return fmt.Sprint(10*s.order + s.id%2)
	case s.order%4 == 3:
		return "deleted"
	}
	return fmt.Sprint(10*s.order + s.order%2*s.feed)
}

// A story is the history of one offer. What becomes of its tenant's feeds, tenants says.
type story struct {
	tenant int // in tenants
	steps  []step
}

func (h story) String() string {
	var b strings.Builder
	for i, p := range tenants[h.tenant].feeds {
		if p != counts {
			fmt.Fprintf(&b, "feed %s is suspended in phase 1 and %s\n", feeds[i].name, p)
		}
	}
	if r := tenants[h.tenant].reading; r != once {
		fmt.Fprintf(&b, "the feeds are %s\n", r)
	}
	for _, s := range h.steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

type plan string

const (
	counts  plan = "always counts"
	ends    plan = "stays so"
	resumes plan = "resumed in phase 2"
)

// reads is what becomes of the mapping of a tenant's feeds.
type reads string

const (
	once  reads = "read under one mapping version"
	anew  reads = "read under another mapping version from phase 1 on, and all of it in phase 2"
	again reads = "read under another mapping version from phase 1 on, all of it in phase 2, and in the end under the first again"
)

// tenants say what becomes of their feeds. Where contents contradict one another, what was read first counts, also under another
// version: so where all is read again, nothing does.
var tenants = []struct {
	feeds   []plan
	reading reads
}{
	{[]plan{counts, counts, counts}, once}, {[]plan{ends, counts, counts}, once}, {[]plan{resumes, counts, ends}, once}, {[]plan{counts, ends, resumes}, once},
	{[]plan{counts, counts, counts}, anew}, {[]plan{resumes, counts, counts}, again},
}

// wrongBy is by how much a feed's first mapping version reads quantities wrong, where there is a second.
const wrongBy = 1000

// newStory makes one of up to 200 events, repeats counted: most are short.
func newStory(rng *rand.Rand) story {
	h := story{tenant: rng.IntN(len(tenants))}
	if tenants[h.tenant].reading != once && rng.IntN(3) > 0 { // what is read again costs more: one in nine is
		h.tenant = rng.IntN(len(tenants) - 2)
	}
	contradicts := tenants[h.tenant].reading == once
	const orders = 9
	id := 0
	var known []step // what came in earlier phases, and takes part in what follows
	undone := map[key]bool{}
	for phase := range 3 {
		var now []step
		for range 1 + min(20, int(rng.ExpFloat64()*2)) {
			id++
			now = append(now, step{phase, delivers, rng.IntN(len(feeds)), id, 1 + rng.IntN(orders), false})
		}
		for _, s := range known {
			switch { // a phase repeats a quarter of what came before
			case rng.IntN(4) == 0:
				s.phase = phase
				now = append(now, s) // again
			case contradicts && phase == 1 && rng.IntN(10) == 0:
				s.phase, s.second = phase, true // another payload under its key
				now = append(now, s)
			case contradicts && phase == 1 && rng.IntN(10) == 0 && feeds[s.feed].strong:
				id++
				s.phase, s.second, s.id = phase, true, id // another content of its version
				now = append(now, s)
			}
			if at := (key{s.feed, s.id}); undone[at] && rng.IntN(2) == 0 {
				now = append(now, step{phase: phase, kind: redoes, feed: s.feed, id: s.id})
				undone[at] = false
			} else if rng.IntN(16) == 0 {
				now = append(now, step{phase: phase, kind: undoes, feed: s.feed, id: s.id})
				undone[at] = true
			}
			if phase == 2 && s.second && rng.IntN(2) == 0 {
				now = append(now, step{phase: phase, kind: releases, feed: s.feed, id: s.id})
			}
		}
		known = append(known, slices.DeleteFunc(slices.Clone(now), func(s step) bool { return s.kind != delivers })...)
		h.steps = append(h.steps, now...)
	}
	return h
}

// The model is the rules of design.md, sections 5 and 8, in plain maps: it shares nothing with offerlog.
type model struct {
	plan     []plan
	wrong    int                   // by so much quantities are
	keys     map[key]step          // the payload that was accepted under each
	set      map[key]step          // the payload that was set aside
	revision map[revision]*stated  // what each says first
	more     map[revision][]stated // its corrections
	undone   map[key]bool
}

type key struct{ feed, id int }

type revision struct{ feed, order, id int } // id: of a feed without versions

// A stated is an observation: an offer's revision with what it says.
type stated struct {
	revision
	says   string
	claims []key // by which it counts; none: a correction, which does by itself
	out    bool  // a correction has taken its place
}

func revisionOf(s step) revision {
	if feeds[s.feed].strong {
		return revision{s.feed, s.order, 0}
	}
	return revision{s.feed, s.order, s.id}
}

// possible reports whether a step of a phase can have an effect: what it is about came in an earlier one.
func (m *model) possible(s step) bool {
	at := key{s.feed, s.id}
	_, accepted := m.keys[at]
	_, aside := m.set[at]
	return s.kind == delivers || s.kind == releases && aside || (s.kind == undoes || s.kind == redoes) && accepted
}

// take carries out the steps of a phase, and returns those that are possible.
func (m *model) take(steps []step) (possible []step) {
	for _, s := range steps {
		if m.possible(s) {
			possible = append(possible, s)
		}
	}
	for _, s := range possible {
		at := key{s.feed, s.id}
		switch s.kind {
		case undoes, redoes:
			m.undone[at] = s.kind == undoes
		case releases:
			m.release(m.set[at])
			delete(m.set, at)
		case delivers:
			m.deliver(s, at)
		}
	}
	return possible
}

func (m *model) deliver(s step, at key) {
	first, known := m.keys[at]
	if known {
		if first.says() != s.says() {
			m.set[at] = s
		}
		return
	}
	m.keys[at] = s
	r := revisionOf(s)
	switch stands := m.revision[r]; {
	case stands == nil:
		m.revision[r] = &stated{revision: r, says: s.says(), claims: []key{at}}
	case stands.says == s.says():
		stands.claims = append(stands.claims, at)
	default:
		m.set[at] = s
	}
}

// release lets what was set aside take the place of all that its revision says.
func (m *model) release(s step) {
	r := revisionOf(s)
	m.revision[r].out = true
	for i := range m.more[r] {
		m.more[r][i].out = true
	}
	m.more[r] = append(m.more[r], stated{revision: r, says: s.says()})
}

func (m *model) counts(s *stated) bool {
	if s.out || m.plan[s.feed] == ends {
		return false
	}
	return s.claims == nil || slices.ContainsFunc(s.claims, func(k key) bool { return !m.undone[k] })
}

// shows lists what the offer may show: several where claims of one rank contradict one another, of which one is shown and flagged.
func (m *model) shows() []string {
	var best []*stated
	add := func(s *stated) {
		if !m.counts(s) {
			return
		}
		rank := func(s *stated) [2]int {
			if feeds[s.feed].strong {
				return [2]int{1, s.order}
			}
			return [2]int{0, s.order}
		}
		c := 1
		if len(best) > 0 {
			a, b := rank(s), rank(best[0])
			c = cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
		}
		switch {
		case c > 0:
			best = []*stated{s}
		case c == 0:
			best = append(best, s)
		}
	}
	for r, s := range m.revision {
		add(s)
		for i := range m.more[r] {
			add(&m.more[r][i])
		}
	}
	var says []string
	for _, s := range best {
		if n, err := strconv.Atoi(s.says); err == nil {
			says = append(says, strconv.Itoa(n+m.wrong))
		} else {
			says = append(says, s.says)
		}
	}
	slices.Sort(says)
	if says = slices.Compact(says); len(says) > 1 {
		for i := range says {
			says[i] += " " + offer.FlagAmbiguousOrder
		}
	}
	if says == nil {
		says = []string{""} // nothing counts
	}
	return says
}

// A course is a history on its way through offerlog and the model.
type course struct {
	story
	model
	n int // makes record and ids
}

// specUnder is that of a tenant's feed. Where it is read again, the first mapping version is wrong.
func specUnder(t testing.TB, tenant, i, version int) feed.Spec {
	t.Helper()
	f, name, quantity := feeds[i], fmt.Sprint("t", tenant), ".qty"
	if tenants[tenant].reading != once && version == 1 {
		quantity = ".wrong"
	}
	settings := fmt.Sprintf("feed: %s\ntenant: %s\nconnector: %s\naccount: ACC\naccepts: {topics: [deliveries], source: %s}\n", f.name, name, f.name, sourceOf(name, i))
	if f.strong {
		settings += fmt.Sprintf("mapping: {version: %d, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: %s, deleted: .del}}\n", version, quantity)
	} else {
		settings += fmt.Sprintf("order: observed_at\nmapping: {version: %d, fields: {source_record: .sku, item: {mpn: .sku}, quantity: %s}}\n", version, quantity)
	}
	return specOf(t, settings)
}

func (c *course) tenantName() string { return fmt.Sprint("t", c.tenant) }
func (c *course) record() string     { return fmt.Sprint("R", c.n) }

func sourceOf(tenant string, feed int) string { return "/" + tenant + "/" + feeds[feed].name }

func (c *course) eventID(id int) string { return fmt.Sprintf("%d-%d", c.n, id) }

// deliveryID is the id that offerlog knows a delivery by.
func (c *course) deliveryID(feed, id int) offer.DeliveryID {
	return offer.ReplayKey{Source: offer.Source{Tenant: c.tenantName(), Connector: feeds[feed].name, Account: "ACC"}, EventSource: sourceOf(c.tenantName(), feed),
		EventID: c.eventID(id)}.ID()
}

func (c *course) delivery(s step) *kgo.Record {
	row := map[string]any{"sku": c.record(), "rev": s.order, "del": s.says() == "deleted"}
	if s.says() != "deleted" {
		qty, err := strconv.Atoi(s.says())
		if err != nil {
			panic(err) // it is a number, or deleted
		}
		row["qty"], row["wrong"] = qty, qty+wrongBy
	}
	body, err := json.Marshal(row)
	if err != nil {
		panic(err) // of numbers and texts
	}
	return delivery(c.eventID(s.id), string(body), "source", sourceOf(c.tenantName(), s.feed), "time", fmt.Sprintf("2025-03-01T08:00:%02dZ", s.order))
}

func commandOf(tenant, kind string, data any) *kgo.Record {
	body, err := json.Marshal(data)
	if err != nil {
		panic(err) // as above
	}
	return pipeline.Event(streams.Commands, tenant, body, map[string]string{"id": uuid.NewString(), "source": "/test", "type": kind, streams.ExtTenant: tenant,
		streams.ExtReason: "ticket 4411", streams.ExtActor: "ann"})
}

// live lets all histories happen in one installation, beside the making of a generation to which it switches in the end, and returns
// what each shows that its model does not: "" where they agree.
func live(t *testing.T, histories []story) (wrong []string) {
	t.Run(fmt.Sprint(len(histories), " histories"), func(t *testing.T) { wrong = liveIn(t, histories) })
	if wrong == nil {
		t.FailNow() // it has said why
	}
	return wrong
}

func liveIn(t *testing.T, histories []story) []string {
	s := newScene(t, pipeline.Options{Partitions: 2})
	s.StartAll()
	for tenant := range tenants {
		for i := range feeds {
			s.ApplyFeed(specUnder(t, tenant, i, 1))
		}
	}
	courses := make([]*course, len(histories))
	for i, h := range histories {
		wrong := 0
		if tenants[h.tenant].reading == again {
			wrong = wrongBy
		}
		courses[i] = &course{h, model{tenants[h.tenant].feeds, wrong, map[key]step{}, map[key]step{}, map[revision]*stated{}, map[revision][]stated{}, map[key]bool{}}, i}
	}
	generation := 0
	for phase := range 3 {
		s.phase(phase, courses)
		if phase == 0 {
			var err error
			if generation, err = project.Make(t.Context(), s.Pool, project.Command{Actor: "ann", Reason: "ticket 4411"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := project.Fill(t.Context(), s.Pool, generation, func(int) {}); err != nil {
			t.Fatal(err)
		}
	}
	s.backToTheFirst()
	ctx, cancel := context.WithTimeout(t.Context(), 5*pipeline.Patience) // there is much to project
	defer cancel()
	if _, err := settle.Wait(ctx, s.Pool, s.Cluster, s.Inputs); err != nil {
		t.Fatal(err)
	}
	wrong := s.compare(courses, "")
	if _, err := project.Switch(t.Context(), s.Pool, generation, project.Command{Actor: "ann", Reason: "ticket 4411"}); err != nil {
		t.Error(err)
	}
	for i, what := range s.compare(courses, "after the switch ") {
		wrong[i] = cmp.Or(wrong[i], what)
	}
	return wrong
}

// phase publishes what one has of all histories, and waits until it is stored.
func (s *scene) phase(phase int, courses []*course) {
	s.t.Helper()
	var commands, deliveries []*kgo.Record
	for tenant, of := range tenants {
		for i, f := range feeds {
			name := fmt.Sprint("t", tenant)
			switch {
			case phase == 1 && of.feeds[i] != counts:
				commands = append(commands, commandOf(name, streams.FeedSuspendType, ingest.FeedDecision{Feed: f.name}))
			case phase == 2 && of.feeds[i] == resumes:
				commands = append(commands, commandOf(name, streams.FeedResumeType, ingest.FeedDecision{Feed: f.name}))
			}
			switch {
			case of.reading != once && phase == 1:
				commands = append(commands, commandOf(name, streams.FeedApplyType, specUnder(s.t, tenant, i, 2)))
			case of.reading != once && phase == 2:
				commands = append(commands, commandOf(name, streams.ReplayStartType, ingest.ReplayStart{Selection: replay.Selection{Feed: f.name, Mapping: 2}, Rate: 100_000}))
			}
		}
	}
	entries := s.asideBy()
	released := 0
	for _, c := range courses {
		var steps []step
		for _, st := range c.steps {
			if st.phase == phase {
				steps = append(steps, st)
			}
		}
		for _, st := range c.take(steps) {
			id := uuid.UUID(c.deliveryID(st.feed, st.id))
			switch st.kind {
			case delivers:
				deliveries = append(deliveries, c.delivery(st))
			case undoes:
				commands = append(commands, commandOf(c.tenantName(), streams.UndoType, ingest.Claims{Delivery: &id}))
			case redoes:
				commands = append(commands, commandOf(c.tenantName(), streams.RedoType, ingest.Claims{Delivery: &id}))
			case releases:
				commands = append(commands, commandOf(c.tenantName(), streams.QuarantineReleaseType, ingest.Entries{Entries: entries[id]}))
				released++
			}
		}
	}
	var twice []*kgo.Record // one after the other: a command that is refused may come again later, and be right
	for _, c := range commands {
		twice = append(twice, c, c)
	}
	s.Publish(twice...)
	s.Feed(s.rng, deliveries...)
	s.ingested()
	s.Until("what was released to be read again", s.asked("SELECT count(*) >= $1 FROM audit_v1.replay AS r WHERE r.entry IS NOT NULL", released))
}

// backToTheFirst takes the second mapping versions out of force where that is planned, and waits until everything is read that is to
// be read again.
func (s *scene) backToTheFirst() {
	s.t.Helper()
	read := s.asked("SELECT coalesce(bool_and(r.state = 'sent' AND r.sent = r.answered), true) FROM audit_v1.replay_run AS r")
	s.Until("all to be read under the second mapping version", read)
	for tenant, of := range tenants {
		if of.reading != again {
			continue
		}
		for _, f := range feeds {
			undo := commandOf(fmt.Sprint("t", tenant), streams.UndoType, ingest.Claims{Mapping: &ingest.MappingVersion{Feed: f.name, Version: 2}})
			s.Publish(undo, undo)
		}
	}
	s.ingested()
	s.Until("all to be read under the first again", read)
	s.ingested()
}

// asideBy are the open entries of quarantine, by delivery.
func (s *scene) asideBy() map[uuid.UUID][]uuid.UUID {
	s.t.Helper()
	entries := map[uuid.UUID][]uuid.UUID{}
	err := s.inspect(s.t.Context(), func(tx pgx.Tx) error {
		rows, err := tx.Query(s.t.Context(), "SELECT q.id, q.delivery FROM audit_v1.quarantine AS q WHERE q.state = 'open'")
		if err != nil {
			return err
		}
		var id, of uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&id, &of}, func() error { entries[of] = append(entries[of], id); return nil })
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return entries
}

// compare returns what each history shows otherwise than its model says.
func (s *scene) compare(courses []*course, when string) []string {
	s.t.Helper()
	shown := map[string]string{}
	for tenant := range tenants {
		for _, o := range s.Offers(fmt.Sprint("t", tenant)) {
			says := o.Quantity.String()
			if o.Deleted {
				says = "deleted"
			}
			shown[o.Tenant+o.Record] = strings.Join(append([]string{says}, o.Flags...), " ")
		}
	}
	wrong := make([]string, len(courses))
	for i, c := range courses {
		if got, want := shown[c.tenantName()+c.record()], c.shows(); !slices.Contains(want, got) {
			wrong[i] = fmt.Sprintf("%sit shows %q, want one of %q", when, got, want)
		}
	}
	return wrong
}

// smallest takes steps out of a history that goes wrong, as long as it still does: what can be left out is found by many at once.
func smallest(t *testing.T, h story, what string) (story, string) {
	for {
		var less []story
		for size := max(1, len(h.steps)/2); size > 0; size /= 2 {
			for at := 0; at+size <= len(h.steps); at += size {
				less = append(less, story{h.tenant, slices.Delete(slices.Clone(h.steps), at, at+size)})
			}
		}
		wrong := live(t, less)
		i := slices.IndexFunc(wrong, func(w string) bool { return w != "" }) // the largest pieces come first
		if i < 0 {
			return h, what
		}
		h, what = less[i], wrong[i]
	}
}

// TestHistoriesShowWhatTheModelSays holds the view against an independent model: repeats, shuffles, undo and redo, suspended and
// resumed feeds, releases of what was set aside, mapping versions that come into force, are remapped to and undone, and a generation
// that is made meanwhile and switched to. A history that goes wrong is printed with what matters of it alone.
func TestHistoriesShowWhatTheModelSays(t *testing.T) { showWhatTheModelSays(t, 1) }

func TestSoakHistoriesShowWhatTheModelSays(t *testing.T) {
	if os.Getenv("OFFERLOG_SOAK") == "" {
		t.Skip("takes an hour: set OFFERLOG_SOAK=1")
	}
	showWhatTheModelSays(t, 100)
}

func showWhatTheModelSays(t *testing.T, rounds int) {
	for range rounds {
		rng := seeded(t)
		histories := make([]story, 1000)
		events := 0
		for i := range histories {
			histories[i] = newStory(rng)
			events += len(histories[i].steps)
		}
		began := time.Now()
		wrong := live(t, histories)
		t.Logf("%d histories of %d events in %.0f s", len(histories), events, time.Since(began).Seconds())
		if i := slices.IndexFunc(wrong, func(w string) bool { return w != "" }); i >= 0 {
			h, what := smallest(t, histories[i], wrong[i])
			t.Fatalf("%s:\n%s", what, h)
		}
	}
}
