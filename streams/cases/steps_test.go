package cases

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/janitor"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// A step is one member of a case's steps: an actor does something.
type step struct {
	n     int
	actor string // worker-a
	verb  string // worker handles
	args  map[string]any
}

// UnmarshalJSON reads the members that every step has, and keeps the others as arguments.
func (s *step) UnmarshalJSON(b []byte) error {
	if err := decode(b, false, &s.args); err != nil {
		return err
	}
	n, err := strconv.Atoi(fmt.Sprint(s.args["n"]))
	if err != nil {
		return fmt.Errorf("a step has the number %v", s.args["n"])
	}
	s.n, s.actor = n, fmt.Sprint(s.args["actor"])
	kind, _, _ := strings.Cut(s.actor, "-")
	s.verb = fmt.Sprint(kind, " ", s.args["do"])
	for _, name := range []string{"n", "actor", "do", "note"} {
		delete(s.args, name)
	}
	return nil
}

func (s *step) text(name string) string { t, _ := s.args[name].(string); return t }

func (s *step) int(name string) int { n, _ := strconv.Atoi(fmt.Sprint(s.args[name])); return n }

// events are those that a step names.
func (s *step) events() []int {
	if _, ok := s.args["event"]; ok {
		return []int{s.int("event")}
	}
	return s.ints("events")
}

func (s *step) ints(name string) (list []int) {
	values, _ := s.args[name].([]any)
	for _, v := range values {
		n, _ := strconv.Atoi(fmt.Sprint(v))
		list = append(list, n)
	}
	return list
}

// A verb is what a step can do, with the arguments that it knows.
type verb struct {
	args string
	do   func(*scene, *step)
}

// verbs are the steps that this version can take, by kind of actor and what it does.
var verbs map[string]verb

func init() { // what the verbs do looks at verbs again
	verbs = map[string]verb{
		"topic holds":                  {"partition events log_start log_end", (*scene).topicHolds},
		"database stores_next_offset":  {"partition next", (*scene).databaseStoresNextOffset},
		"operator adopts_gap":          {"partition", (*scene).operatorAdoptsGap},
		"operator dumps_and_restores":  {"into", (*scene).operatorDumpsAndRestores},
		"producer begins_transaction":  {"id", (*scene).producerBegins},
		"producer writes":              {"event", (*scene).producerWrites},
		"producer aborts":              {"", (*scene).producerAborts},
		"producer commits":             {"", (*scene).producerCommits},
		"worker handles":               {"event events again commit together_with", (*scene).workerHandles},
		"worker handles_as_one_batch":  {"events", (*scene).workerHandlesAsOneBatch},
		"worker reads_to_end":          {"", (*scene).workerReadsToEnd},
		"worker starts":                {"", (*scene).workerStarts},
		"worker restarts":              {"", (*scene).workerRestarts},
		"worker repeats_commit":        {"next", (*scene).workerRepeatsCommit},
		"network delivers_held_commit": {"next", (*scene).networkDeliversHeldCommit},
		"test repeats":                 {"rounds with", (*scene).testRepeats},
		"projector runs_to_end":        {"", (*scene).projectorRunsToEnd},
		"projector starts":             {"", (*scene).projectorStarts},
		"projector is_killed":          {"at", (*scene).projectorIsKilled},
		"outbox holds":                 {"rows", (*scene).outboxGets},
		"outbox gets":                  {"rows", (*scene).outboxGets},
		"tx inserts":                   {"outbox partition", (*scene).txInserts},
		"tx commits":                   {"", (*scene).txCommits},
		"relay starts":                 {"", (*scene).relayStarts},
		"relay restarts":               {"", (*scene).relayRestarts},
		"relay runs_to_end":            {"", (*scene).relayRunsToEnd},
		"relay writes_in_transaction":  {"rows", (*scene).relayWritesInTransaction},
		"relay is_killed":              {"", (*scene).relayIsKilled},
		"broker commits":               {"", (*scene).brokerCommits},
		"network loses_answer":         {"request", (*scene).networkLosesAnswer},
		"reader selects":               {"role tenant", (*scene).readerSelects},
		"reader inserts":               {"role tenant", (*scene).readerInserts},
		"clock moves_past":             {"what", (*scene).clockMovesPast},
		"janitor runs":                 {"", (*scene).janitorRuns},
		"reader reads_run":             {"run", (*scene).readerReadsRun},
		"operator builds_generation":   {"name", (*scene).operatorBuildsGeneration},
		"operator verifies":            {"name", (*scene).operatorVerifies},
		"operator switches":            {"to", (*scene).operatorSwitches},
	}
}

// notYet are the steps that cases may name and this version cannot take.
var notYet = []string{
	"view changes", "sink runs_to_end",
}

func checkSteps(steps []step) error {
	var missing error
	for _, s := range steps {
		v, ok := verbs[s.verb]
		if !ok {
			if !slices.Contains(notYet, s.verb) {
				return fmt.Errorf("step %d: nobody knows how %q is done", s.n, s.verb)
			}
			missing = cmp.Or[error](missing, &unsupportedError{fmt.Sprintf("step %q", s.verb)})
			continue
		}
		known := strings.Fields(v.args)
		for name := range s.args {
			if !slices.Contains(known, name) && missing == nil {
				return fmt.Errorf("step %d: %q takes no %q", s.n, s.verb, name)
			}
		}
	}
	return missing
}

// A scene is a case with steps while it is played.
type scene struct {
	t testing.TB
	c *kase
	p *pipeline.Pipeline

	published  map[int]*kgo.Record // by event
	again      *kgo.Record         // the last that was published another time
	later      time.Duration       // how far the clock has been moved
	workers    map[string]*pipeline.Worker
	gate       *gate
	pair       bool              // two workers handle events together
	producer   *kgo.Client       // with a transaction
	held       *heldCommit       // an offset commit on its way
	end        *heldEnd          // an end of transaction on its way
	txs        map[string]pgx.Tx // that hold the outbox
	registered bool              // the lanes of a case that begins at the outbox
	joining    map[string]int    // how often each worker complained before it had its partitions
	fresh      map[string]bool   // records of repeated rounds
	built      map[string]int    // generations by name
	final      measures
}

// play takes the steps of a case and checks what holds after each and at the end.
func play(t *listener, c *kase) {
	s := &scene{t: t, c: c, published: map[int]*kgo.Record{}, workers: map[string]*pipeline.Worker{}, txs: map[string]pgx.Tx{}, joining: map[string]int{}, fresh: map[string]bool{}, built: map[string]int{}}
	s.final = measures{scene: s, next: map[string]int64{}, step: map[string]any{}}
	s.p = pipeline.New(t, pipeline.Options{Partitions: 2, Log: slog.DiscardHandler})
	s.p.Topics(c.topics()...)
	s.gate = newGate(s.p.Archive)
	if len(c.feeds) > 0 {
		setup := s.p.Start(pipeline.Ingest)
		for _, f := range c.feeds {
			s.p.ApplyFeed(f)
		}
		setup.Stop()
	}
	s.pairUp()
	for i := range c.Steps {
		st := &c.Steps[i]
		verbs[st.verb].do(s, st)
		s.final.note(st.n)
		for _, name := range []string{fmt.Sprintf("step_%d", st.n), fmt.Sprintf("after_step_%d", st.n)} {
			var nested map[string]json.RawMessage
			if b, ok := c.want.Final[name]; ok && decode(b, false, &nested) == nil {
				s.checkFinal(nested)
				delete(c.want.Final, name)
			}
		}
	}
	if len(c.feeds) > 0 {
		s.gate.open()
		s.ensure("relay", pipeline.Relay)
		s.ensure("projector", pipeline.Project)
		s.p.SettleOffers()
		if err := checkDeliveries(s.p, c.want.Deliveries, s.published); err != nil {
			t.Fatal(err)
		}
		if err := s.state().check(&c.want); err != nil {
			t.Fatal(err)
		}
	}
	s.checkFinal(c.want.Final)
}

// state is that of the first round, where there are several.
func (s *scene) state() state { return stateOf(s.p, s.c.tenants()).without(s.fresh) }

// ensure starts a stage that no step has started.
func (s *scene) ensure(kind string, stage pipeline.Stage) {
	for name := range s.workers {
		if strings.HasPrefix(name, kind) {
			return
		}
	}
	s.workers[kind] = s.p.Start(stage)
}

// worker is the actor's ingest, started if need be. It takes as many records a batch as told, and no more than the gate lets
// through.
func (s *scene) worker(name string, batch int) *pipeline.Worker {
	if w := s.workers[name]; w != nil {
		return w
	}
	w := s.p.StartIngest(ingest.Config{Worker: name, MaxRecords: batch}, s.gate)
	s.workers[name] = w
	return w
}

// publish writes those of the events that no step has put into the topic.
func (s *scene) publish(events []int) {
	for _, e := range events {
		if s.published[e] == nil {
			s.published[e] = s.p.Publish(s.c.events[e])[0]
		}
	}
}

// stored waits until ingest has stored a record.
func (s *scene) stored(r *kgo.Record) {
	s.t.Helper()
	s.p.Until(fmt.Sprintf("offset %d of %s/%d to be stored", r.Offset, r.Topic, r.Partition), func(ctx context.Context) (bool, error) {
		next, err := s.next(ctx, s.p.Cluster.Name(r.Topic), r.Partition)
		return next > r.Offset, err
	})
}

// next is the stored next offset of a partition.
func (s *scene) next(ctx context.Context, topic string, partition int32) (next int64, err error) {
	lanes, err := s.lanes(ctx, topic)
	for _, l := range lanes {
		if l.Partition == partition {
			next = l.Next
		}
	}
	return next, err
}

func (s *scene) lanes(ctx context.Context, topic string) (lanes []lane.Lane, err error) {
	err = postgres.InTx(ctx, s.p.Pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		lanes, err = lane.List(ctx, tx, lane.Input, topic)
		return err
	})
	return lanes, err
}

// readTo waits until ingest has stored all that the topics hold.
func (s *scene) readTo(end func(topic string) []int64) {
	for _, topic := range s.p.Inputs {
		for partition, offset := range end(topic) {
			s.p.Until(fmt.Sprintf("%s/%d to be read to %d", topic, partition, offset), func(ctx context.Context) (bool, error) {
				next, err := s.next(ctx, topic, int32(partition)) //nolint:gosec // a partition
				return next >= offset, err
			})
		}
	}
}

func (s *scene) topicHolds(st *step) {
	if _, later := st.args["log_start"]; later {
		s.topicBeginsLater(int32(st.int("partition")), st) //nolint:gosec // a partition
		return
	}
	for _, e := range st.events() {
		s.published[e] = s.p.PublishTo(int32(st.int("partition")), s.c.events[e])[0] //nolint:gosec // a partition
	}
}

func (s *scene) workerStarts(st *step) { s.worker(st.actor, 0) }

func (s *scene) workerRestarts(st *step) {
	s.workers[st.actor].Stop()
	delete(s.workers, st.actor)
	s.worker(st.actor, 1)
}

func (s *scene) workerReadsToEnd(st *step) {
	s.gate.open()
	s.worker(st.actor, 0)
	s.readTo(s.ends)
}

func (s *scene) workerHandlesAsOneBatch(st *step) {
	events := st.events()
	s.publish(events)
	s.gate.open()
	s.worker(st.actor, len(events))
	first, last := s.published[events[0]], s.published[events[len(events)-1]]
	s.stored(last)
	if n := s.batches(first, last); n != 1 {
		s.t.Fatalf("step %d: got %d batches for offsets %d to %d, want 1", st.n, n, first.Offset, last.Offset)
	}
}

func (s *scene) workerHandles(st *step) {
	events := st.events()
	if st.args["again"] == true {
		s.handleAgain(st)
		return
	}
	s.publish(events)
	if strings.HasSuffix(st.text("commit"), "still on its way") {
		s.held = holdCommit(s.p.Broker, s.published[events[0]])
	}
	s.worker(st.actor, 1)
	for _, e := range events {
		s.gate.pass(s.published[e])
	}
	if st.text("together_with") != "" {
		return // the other one's step waits for both: neither gets on alone
	}
	for _, e := range events {
		s.stored(s.published[e])
	}
	switch commit := st.text("commit"); {
	case commit == "":
	case s.held != nil && !s.held.taken.Load():
		s.p.Until("a commit of offsets to be held", func(context.Context) (bool, error) { return s.held.taken.Load(), nil })
	case strings.HasSuffix(commit, "done"):
		s.mirrored(s.published[events[0]], s.published[events[0]].Offset+1)
	}
}

// handleAgain has the worker handle another copy of an event.
func (s *scene) handleAgain(st *step) {
	s.again = s.p.Publish(s.c.events[st.int("event")])[0]
	s.worker(st.actor, 1)
	s.gate.pass(s.again)
	s.stored(s.again)
}

// clockMovesPast moves the clock over the longest time for which a feed knows its deliveries.
func (s *scene) clockMovesPast(st *step) {
	if what := st.text("what"); !strings.HasPrefix(what, "dedupe horizon") {
		s.t.Fatalf("step %d: no clock can be moved past %q", st.n, what)
	}
	for _, f := range s.c.feeds {
		s.later = max(s.later, time.Duration(f.Policy.DedupeHorizon)+time.Hour)
	}
}

func (s *scene) janitorRuns(st *step) {
	now := func() time.Time { return time.Now().Add(s.later) }
	if err := janitor.New(s.p.Pool, janitor.Config{Now: now}, slog.New(slog.DiscardHandler)).Sweep(s.t.Context()); err != nil {
		s.t.Fatalf("step %d: %v", st.n, err)
	}
}

// operatorDumpsAndRestores moves the database to another cluster. Who worked with the old one starts anew.
func (s *scene) operatorDumpsAndRestores(st *step) {
	if into := st.text("into"); into != "new cluster" {
		s.t.Fatalf("step %d: nothing can be restored into %q", st.n, into)
	}
	for _, name := range slices.Sorted(maps.Keys(s.workers)) {
		s.workers[name].Stop()
	}
	clear(s.workers)
	s.p.Restore()
}

func (s *scene) projectorStarts(st *step) {
	s.workers[st.actor] = s.p.Start(pipeline.Project)
	s.ensure("relay", pipeline.Relay)
}

func (s *scene) projectorRunsToEnd(st *step) {
	if s.workers[st.actor] == nil {
		s.projectorStarts(st)
	}
	s.p.SettleOffers()
}

// projectorIsKilled brings a projector to the moment that the step names: the view is committed, and no relay is there that
// could have published the change.
func (s *scene) projectorIsKilled(st *step) {
	if at := st.text("at"); at != "after the view's commit, before publication" {
		s.t.Fatalf("step %d: no projector can be killed %q", st.n, at)
	}
	relay := s.p.Start(pipeline.Relay)
	s.p.Until("the observations to be on their topic", func(ctx context.Context) (bool, error) { return s.relayed(ctx) })
	relay.Stop()
	w := s.p.Start(pipeline.Project)
	s.p.Settle()
	w.Kill()
	if n := len(s.p.Committed(streams.CurrentOffers)); n != 0 {
		s.t.Fatalf("step %d: the change was published before the kill", st.n)
	}
}

// relayed reports whether the relay has published every number that the lanes of ingest have given.
func (s *scene) relayed(ctx context.Context) (done bool, err error) {
	err = postgres.InTx(ctx, s.p.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT count(*) = 0
			  FROM audit_v1.position AS p
			  LEFT JOIN audit_v1.relay AS r ON r.lane = p.lane
			 WHERE p.kind = 'input'
			   AND p.sequence > coalesce(r.published_seq, 0)`).Scan(&done)
	})
	return done, err
}

// testRepeats does again what the steps before have done, with fresh ids and records.
func (s *scene) testRepeats(st *step) {
	if !s.pair {
		s.t.Fatalf("step %d: only what two workers do together can be repeated", st.n)
	}
	var marks []*kgo.Record // every hundredth record and the last: what is waited for comes soon after what was there before
	for e, event := range s.c.events {
		var rounds []*kgo.Record
		for r := 1; r < st.int("rounds"); r++ {
			rounds = append(rounds, s.refresh(event, r))
		}
		for i, r := range s.p.PublishTo(s.published[e].Partition, rounds...) {
			if i%100 == 0 || i == len(rounds)-1 {
				marks = append(marks, r)
			}
		}
	}
	s.gate.open()
	slices.SortFunc(marks, func(a, b *kgo.Record) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, r := range marks {
		s.stored(r)
	}
}

// refresh is an event of another round: its id and the records in it have the round's number behind them.
func (s *scene) refresh(event *kgo.Record, round int) *kgo.Record {
	r := *event
	r.Headers = slices.Clone(event.Headers)
	for i, h := range r.Headers {
		if h.Key == "ce_id" {
			r.Headers[i].Value = fmt.Appendf(nil, "%s.%d", h.Value, round)
		}
	}
	value := string(event.Value)
	for _, name := range s.records() {
		fresh := freshRecord(name, round)
		s.fresh[fresh] = true
		value = strings.ReplaceAll(value, strconv.Quote(name), strconv.Quote(fresh))
	}
	r.Value = []byte(value)
	return &r
}

func freshRecord(name string, round int) string { return fmt.Sprintf("%s.%d", name, round) }

// records are the names of the records that the case expects.
func (s *scene) records() []string {
	names := map[string]bool{}
	for _, d := range *s.c.want.Observations {
		if name, ok := d["source_record"].(string); ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
