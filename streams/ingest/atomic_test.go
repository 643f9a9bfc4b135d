package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// The statements by which the tests find their way in ingest's transaction.
const (
	locksLanes        = "SELECT l.id, l.sequence"
	insertsReceipts   = "INSERT INTO receipt"
	insertsRows       = "INSERT INTO observation"
	takesLanes        = "WITH started" // of a worker that begins
	advancesLanes     = "WITH moved"
	commits           = "commit"
	beforeLocksLanes  = "before " + locksLanes
	afterAdvanceLanes = "after " + advancesLanes
)

// inTheTransaction springs at a point of the transaction that stores a batch, not of those that read before it.
func inTheTransaction(springs func(point string) bool) func(string) bool {
	locked := false
	return func(point string) bool {
		locked = locked || strings.HasPrefix(point, beforeLocksLanes)
		return locked && springs(point)
	}
}

// batchOf is one record that holds events in the order given.
func batchOf(events ...string) *kgo.Record {
	return &kgo.Record{Topic: streams.Deliveries, Value: []byte("[" + strings.Join(events, ",") + "]"),
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/cloudevents-batch+json")}}}
}

// structured is a delivery of acme-eu as a JSON text; more are further members, each with a comma before it.
func structured(id, data, more string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/acme-eu/export","type":%q,"datacontenttype":"application/json","time":"2025-03-01T08:00:00Z","data":%s%s}`,
		id, streams.DeliveryType, data, more)
}

func TestS_000_31_S_003_05_a_transaction_that_fails_at_any_statement_leaves_nothing(t *testing.T) {
	onBothBrokers(t, pipeline.Options{Partitions: 1}, func(t *testing.T, s *scene) {
		p := &trap{}
		s.startIngest(ingest.Config{}, s.Archive, p.use)
		s.ApplyFeed(specOf(t, ""))
		s.Publish(delivery("base", row("base", 1, "1")))
		s.ingested()
		publishers := map[string]func(k int){
			"deliveries": func(k int) { // one record that writes to every table
				id := func(what string) string { return fmt.Sprint(what, "-", k) }
				s.Publish(batchOf(
					structured(id("new"), row(id("N"), 1, "1"), `,"runid":"run-`+fmt.Sprint(k)+`","page":1`),
					structured(id("sighting"), row("base", 1, "1"), ""),
					structured(id("conflict"), "["+row("base", 1, "2")+","+row(id("M"), 1, "1")+"]", ""),
					structured(id("mended"), `{"sku": "no version"}`, ""),
					structured(id("mended"), row(id("O"), 1, "1"), ""),
					structured(id("new"), row(id("N"), 1, "1"), ""),
				))
			},
			"a command": func(k int) {
				s.publishFeed(fmt.Sprint("cmd-", k), fmt.Sprintf("feed: f%d\naccepts: {topics: [deliveries], source: /f%d}\n", k, k))
			},
		}
		if s.Broker == nil { // of the statements that a command adds Kafka knows nothing
			delete(publishers, "a command")
		}
		for what, publish := range publishers {
			for k, last := 1, false; !last; k++ {
				before := s.stored()
				n, at := 0, ""
				p.set(inTheTransaction(func(point string) bool {
					last = point == "after "+commits
					if strings.HasPrefix(point, "before ") {
						n++
					}
					at = point
					return n == k || last
				}))
				publish(k)
				p.wait(s)
				p.cut(s)
				if during := s.stored(); (during != before) != last {
					t.Errorf("%s, cut %.60q: before %s, then %s", what, at, before, during)
				}
				p.release()
				s.ingested()
			}
		}
		if got := ask[int](s, `SELECT count(*) FROM audit_v1.outcome WHERE outcome = 'accepted' AND event_id LIKE 'mended-%'`); got < 10 {
			t.Errorf("the transaction had %d statements, want at least 10", got)
		}
		s.verify()
	})
}

// publishFeed publishes the command that applies a feed, under an id, and does not wait.
func (s *scene) publishFeed(id, settings string) *kgo.Record {
	s.t.Helper()
	body, err := specOf(s.t, settings).JSON()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.Publish(command(id, string(body)))[0]
}

// command is one of tenant t1.
func command(id, body string, attributes ...string) *kgo.Record {
	return on(streams.Commands, delivery(id, body, append([]string{"type", streams.FeedApplyType, "source", "/cli", streams.ExtTenant, "t1"}, attributes...)...))
}

func TestM_02_S_003_04_a_kill_at_any_point_loses_and_doubles_nothing(t *testing.T) {
	for name, test := range map[string]struct {
		springs func(point string) bool
		reused  int // objects that the second worker finds
		stored  bool
	}{
		"S_003_19 after normalization":                 {at("before archive"), 0, false},
		"S_003_18 after raw capture":                   {at("after archive"), 1, false},
		"S_000_27 after the keys are taken":            {at("after " + insertsReceipts), 1, false},
		"before the rows":                              {at("before " + insertsRows), 1, false},
		"S_000_28 S_003_20 after the rows":             {at("after " + insertsRows), 1, false},
		"S_003_21 before the checkpoint is committed":  {at(afterAdvanceLanes), 1, false},
		"S_003_22 after the commit, before the mirror": {at("after " + commits), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBothBrokers(t, pipeline.Options{Partitions: 1}, func(t *testing.T, s *scene) {
				p := &trap{}
				first := newStore(s.Archive, p)
				w := s.startIngest(ingest.Config{Worker: "first"}, first, p.use)
				s.ApplyFeed(specOf(t, ""))
				s.ingested()
				objects, _ := first.count()
				before := s.stored()
				armed := inTheTransaction(test.springs)
				if strings.HasSuffix(name, "normalization") || strings.HasSuffix(name, "capture") {
					armed = test.springs
				}
				p.set(armed)
				page1 := delivery("EXP/1", `[`+row("A", 1, "1")+`,`+row("B", 1, "1")+`,`+row("C", 1, "1")+`]`, "runid", "EXP", "page", "1")
				s.Publish(page1)
				p.wait(s)
				p.kill(s, w)
				if during := s.stored(); (during != before) != test.stored {
					t.Errorf("the kill left %s, before there was %s", during, before)
				}
				second := newStore(s.Archive, nil)
				s.StartIngest(ingest.Config{Worker: "second"}, second)
				s.ingested()
				s.Publish(page1, delivery("EXP/2", row("D", 1, "1"), "runid", "EXP", "page", "2"))
				s.wantTally("EXP/1", "accepted 1, duplicate 1")
				s.wantTally("EXP/2", "accepted 1")
				for _, record := range []string{"A", "B", "C", "D"} {
					if got := s.quantities(record); len(got) != 1 {
						t.Errorf("%s: got %d observations, want 1", record, len(got))
					}
				}
				if got := fmt.Sprint(s.attempts("EXP/1")[0].Observations); got != fmt.Sprint(observationIDs("A", "B", "C")) {
					t.Errorf("the ids do not follow from what they identify: got %s", got)
				}
				owner := ask[string](s, `SELECT j.owner FROM audit_v1.commit_journal AS j JOIN audit_v1.position AS p ON p.lane = j.lane WHERE p.topic = $1 AND j.from_offset = 0`, streams.Deliveries)
				if want := map[bool]string{true: "first", false: "second"}[test.stored]; owner != want {
					t.Errorf("the page was committed by the %s worker, want the %s", owner, want)
				}
				if _, reused := second.count(); reused != test.reused {
					t.Errorf("the second worker found %d objects, want %d", reused, test.reused)
				}
				if made, _ := first.count(); made-objects > 1 {
					t.Errorf("the first worker made %d objects of one batch", made-objects)
				}
				s.verify()
			})
		})
	}
}

// at springs at a point of which the start is given.
func at(point string) func(string) bool {
	return func(p string) bool { return strings.HasPrefix(p, point) }
}

func TestS_000_32_failed_transactions_use_one_object(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	objects := newStore(s.Archive, nil)
	s.StartIngest(ingest.Config{}, objects)
	s.ApplyFeed(specOf(t, ""))
	s.ingested()
	commands, _ := objects.count()
	const attempts = 5
	s.asSuperuser(`CREATE SEQUENCE attempt;
		GRANT USAGE ON SEQUENCE attempt TO offerlog_ingest;
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('attempt') <= ` + fmt.Sprint(attempts) + ` THEN
				RAISE 'no space left on device' USING ERRCODE = 'disk_full';
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER fail AFTER INSERT ON observation EXECUTE FUNCTION fail()`)
	s.Publish(delivery("D", rows(10, 1)))
	s.wantTally("D", "accepted 1")
	if made, reused := objects.count(); made-commands != 1 || reused != attempts {
		t.Errorf("got %d objects, found %d times, want 1, found %d times", made-commands, reused, attempts)
	}
	s.verify()
}

// asSuperuser executes what no role of offerlog may do.
func (s *scene) asSuperuser(sql string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), rig.DatabaseAsSuperuser(s.t, s.DSN))
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = conn.Exec(s.t.Context(), sql)
	if closed := conn.Close(s.t.Context()); err != nil || closed != nil {
		s.t.Fatal(err, closed)
	}
}

func TestS_000_33_nothing_is_stored_while_the_archive_is_down(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	objects := newStore(s.Archive, nil)
	s.StartIngest(ingest.Config{}, objects)
	s.ApplyFeed(specOf(t, ""))
	s.ingested()
	before := s.stored()
	objects.fail(1 << 30)
	for i := range 3 {
		s.Feed(s.rng, delivery(fmt.Sprint("D", i), rows(10, 1)))
		failed := objects.failures()
		s.Until("the archive to fail again", func(context.Context) (bool, error) { return objects.failures() > failed, nil })
		if got := s.stored(); got != before {
			t.Errorf("stored without evidence: got %s, want %s", got, before)
		}
		if lag := s.lag(); lag != int64(2*(i+1)) {
			t.Errorf("got a lag of %d, want %d", lag, 2*(i+1))
		}
	}
	objects.fail(0)
	s.wantTally("", "accepted 3, duplicate 3")
	s.verify()
}

// lag is how many offsets of deliveries are not stored.
func (s *scene) lag() int64 {
	s.t.Helper()
	topic, err := kafka.Describe(s.t.Context(), s.Client, s.Cluster.Topic(streams.Deliveries), false)
	if err != nil {
		s.t.Fatal(err)
	}
	var ends int64
	for _, end := range topic.Ends {
		ends += end
	}
	return ends - ask[int64](s, "SELECT sum(next)::bigint FROM audit_v1.position WHERE topic = $1", streams.Deliveries)
}

func TestPostgreSQLGoesAwayAndComesBack(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	proxy := newProxy(t, s.Pool)
	w := s.startIngest(ingest.Config{}, s.Archive, proxy.use)
	s.ApplyFeed(specOf(t, ""))
	s.Feed(s.rng, delivery("before", rows(10, 1)))
	s.ingested()
	proxy.cut()
	s.Feed(s.rng, delivery("while it is away", rows(10, 1)))
	s.Until("ingest to notice", func(context.Context) (bool, error) { return len(w.Warnings()) > 0, nil })
	proxy.restore()
	s.Feed(s.rng, delivery("after", rows(10, 1)))
	s.wantTally("", "accepted 3, duplicate 3")
	s.verify()
}

func TestWhatNobodyExpectsEndsTheWorkerLoudly(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	s.ingested()
	w.Stop()
	before := s.stored()
	s.asSuperuser("REVOKE INSERT ON observation FROM offerlog_ingest")
	s.Publish(delivery("D", row("A", 1, "1")))
	stage := ingest.New(s.Pool, s.Cluster, s.Archive, auditMapper(), ingest.Config{Topics: s.Inputs}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), pipeline.Patience)
	defer cancel()
	var pg *pgconn.PgError
	if err := stage.Run(ctx); !errors.As(err, &pg) || pg.Code != "42501" {
		t.Errorf("got %v, want that the role may not write", err)
	}
	if got := s.stored(); got != before {
		t.Errorf("the failed batch left %s, before there was %s", got, before)
	}
}

// What no parser has foreseen and the database refuses must not stop the partition, nor take others with it.
func TestARecordThatTheDatabaseRefusesIsSetAsideAlone(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 1})
	s.asSuperuser("ALTER TABLE observation ADD CONSTRAINT absurd CHECK (record <> 'poison') NOT VALID")
	s.begin("")
	for i := range 5 {
		s.Publish(delivery(fmt.Sprint("good", i), row("A", i+1, "1")))
	}
	s.Publish(delivery("bad", row("poison", 1, "1")), delivery("after", row("A", 9, "1")))
	s.wantTally("", "accepted 6, crash_loop 1")
	s.verify()
}

// A worker that dies of a record dies again, until somebody counts.
func TestARecordThatWorkersDieOfIsSetAside(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 1})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	s.Publish(delivery("before", row("A", 1, "1")))
	s.ingested()
	w.Stop()
	s.asSuperuser("UPDATE lane SET starts = 7, tries = 3 WHERE topic = 'deliveries'") // as so many deaths have left it
	s.Publish(delivery("bad", row("A", 2, "1")), delivery("after", row("A", 3, "1")))
	s.StartIngest(ingest.Config{}, s.Archive)
	s.wantTally("", "accepted 2, crash_loop 1")
	s.verify()
}
