package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// asAuditor reads what an operator of t1 may.
func (s *scene) asAuditor(f func(ctx context.Context, tx pgx.Tx) error) {
	s.t.Helper()
	if err := postgres.AsTenant(s.t.Context(), s.Pool, postgres.Audit, "t1", func(tx pgx.Tx) error { return f(s.t.Context(), tx) }); err != nil {
		s.t.Fatal(err)
	}
}

// plan is what a replay would come to.
func (s *scene) plan(sel replay.Selection) (p replay.Plan) {
	s.t.Helper()
	s.asAuditor(func(ctx context.Context, tx pgx.Tx) (err error) {
		r := replay.Run{Tenant: "t1", Selection: sel}
		if r.Stretches, err = replay.Stretches(ctx, tx, "t1", &sel); err == nil {
			p, err = r.Expect(ctx, tx)
		}
		return err
	})
	return p
}

// decided publishes a command with a reason, twice under one id, and fails the test where it is refused.
func (s *scene) decided(kind string, data any) {
	s.t.Helper()
	body, err := json.Marshal(data)
	if err != nil {
		s.t.Fatal(err)
	}
	attributes := map[string]string{"id": uuid.NewString(), streams.ExtActor: "alice", streams.ExtReason: "to be sure"}
	for range 2 {
		if refusal := s.Command("t1", kind, body, attributes); refusal != "" {
			s.t.Fatalf("%s is refused: %s", kind, refusal)
		}
	}
}

// startReplay begins one and returns its id.
func (s *scene) startReplay(sel replay.Selection, rate int) uuid.UUID {
	s.t.Helper()
	s.decided(streams.ReplayStartType, ingest.ReplayStart{Selection: sel, Rate: rate})
	return ask[uuid.UUID](s, "SELECT r.id FROM audit_v1.replay_run AS r ORDER BY r.recorded_at DESC LIMIT 1")
}

// replayAll replays what is selected, waits for the end, and returns what became of it: "duplicate 3".
func (s *scene) replayAll(sel replay.Selection) string {
	s.t.Helper()
	return s.awaitReplay(s.startReplay(sel, 100_000))
}

func (s *scene) awaitReplay(id uuid.UUID) string {
	s.t.Helper()
	s.Until("the replay to end", s.asked("SELECT r.state = 'sent' AND r.sent = r.answered FROM audit_v1.replay_run AS r WHERE r.id = $1", id))
	s.SettleOffers()
	var list []string
	s.asAuditor(func(ctx context.Context, tx pgx.Tx) error {
		tallies, err := replay.Outcomes(ctx, tx, id)
		for _, t := range tallies {
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d %s", t.Outcome, t.Count, t.Detail)))
		}
		return err
	})
	return strings.Join(list, ", ")
}

// came is a plan as awaitReplay tells what came of it.
func came(p replay.Plan) string {
	var list []string
	for _, c := range []struct {
		outcome offer.Outcome
		n       int64
		detail  string
	}{{offer.Accepted, p.Accepted, ""}, {offer.Duplicate, p.Duplicate, ""}, {offer.Quarantined, p.Quarantined, "artifact_removed"}, {offer.Reread, p.Reread, ""}} {
		if c.n > 0 {
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d %s", c.outcome, c.n, c.detail)))
		}
	}
	return strings.Join(list, ", ")
}

// pageEvent is the command for the next page of a replay, as a worker asks for it that has seen it resumed so many times.
func (s *scene) pageEvent(id uuid.UUID, resumed string) *kgo.Record {
	s.t.Helper()
	page := ask[int](s, "SELECT r.pages + 1 FROM audit_v1.replay_run AS r WHERE r.id = $1", id)
	body, err := json.Marshal(ingest.ReplayPage{Replay: id, Page: page})
	if err != nil {
		s.t.Fatal(err)
	}
	return pipeline.Event(streams.Commands, "t1", body, map[string]string{"source": streams.EventSource, "type": streams.ReplayPageType, streams.ExtTenant: "t1",
		"id": offer.Derive("replay-page", "t1", id.String(), fmt.Sprint(page), resumed).String()})
}

// askForPage asks for the next page of a replay and waits for the answer.
func (s *scene) askForPage(id uuid.UUID, resumed string) {
	s.t.Helper()
	s.Publish(s.pageEvent(id, resumed))
	s.ingested()
}

// live is where live work stands: the lanes of deliveries.
func (s *scene) live() string {
	s.t.Helper()
	return ask[string](s, "SELECT string_agg(format('%s: %s %s', p.lane, p.next, p.sequence), ', ' ORDER BY p.lane) FROM audit_v1.position AS p WHERE p.topic LIKE 'deliveries%'")
}

func TestAReplayIsWhatItsPlanSaysAndChangesNothing(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.ApplyFeed(specOf(t, "feed: other\nconnector: other\naccount: ACC-2\naccepts: {topics: [deliveries], source: /other/export}\n"))
	for i := range 4 {
		s.Feed(s.rng, delivery(fmt.Sprintf("D-%d", i), row(fmt.Sprintf("A-%d", i%2), i, "1"), "runid", fmt.Sprintf("EXP-%d", i%2), "page", fmt.Sprint(1+i/2), "pages", "2"))
	}
	s.Feed(s.rng, delivery("O-1", row("A-0", 1, "7"), "source", "/other/export"), delivery("bad", `{"sku": `))
	s.SettleOffers()
	object := ask[string](s, `SELECT a.name FROM audit_v1.artifact AS a JOIN audit_v1.outcome AS o ON (o.tenant, o.topic_id, o.partition, o."offset") = (a.tenant, a.topic_id, a.partition, a."offset")
	                           WHERE o.event_id = 'D-2' AND o.outcome = 'accepted'`)
	inObject := ask[int64](s, `SELECT count(*) FROM audit_v1.artifact AS a JOIN audit_v1.outcome AS o ON (o.tenant, o.topic_id, o.partition, o."offset") = (a.tenant, a.topic_id, a.partition, a."offset")
	                            WHERE a.name = $1 AND o.outcome = 'accepted' AND o.mapping_version > 0`, object)
	middle := ask[string](s, "SELECT to_char(max(o.recorded_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM audit_v1.outcome AS o WHERE o.event_id = 'D-1'")
	at, err := offer.ParseTime(middle)
	if err != nil {
		t.Fatal(err)
	}
	until := at.Time()
	prices, live, observations := s.prices(), s.live(), len(s.Observations("t1"))
	for _, c := range []struct {
		sentence string
		sel      replay.Selection
		want     int64
	}{
		{"all", replay.Selection{}, 5},
		{"a feed", replay.Selection{Feed: "acme-eu"}, 4},
		{"a run", replay.Selection{Run: "EXP-1"}, 2},
		{"a record of two accounts", replay.Selection{Record: "A-0"}, 3},
		{"a record of one feed", replay.Selection{Feed: "acme-eu", Record: "A-0"}, 2},
		{"an artifact", replay.Selection{Artifact: object}, inObject},
		{"a window", replay.Selection{Feed: "acme-eu", To: &until}, -1},
		{"a topic", replay.Selection{Topic: streams.Deliveries}, 5},
		{"nothing", replay.Selection{Record: "none"}, 0},
	} {
		plan := s.plan(c.sel)
		if c.want >= 0 && plan.Deliveries != c.want {
			t.Errorf("%s: planned %d deliveries, want %d", c.sentence, plan.Deliveries, c.want)
		}
		for _, again := range []string{"once", "twice"} {
			if got, want := s.replayAll(c.sel), came(plan); got != want {
				t.Errorf("%s, %s: got %q, planned %q", c.sentence, again, got, want)
			}
		}
	}
	if got := s.live(); got != live {
		t.Errorf("live work stood at %s, now at %s", live, got)
	}
	if got := len(s.Observations("t1")); got != observations {
		t.Errorf("got %d observations, want the %d that there were", got, observations)
	}
	s.wantPrices(prices)
	s.verify()
}

func TestAReplayWaitsGoesOnAndEnds(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	for i := range 6 {
		s.Publish(delivery(fmt.Sprintf("D-%d", i), row("A", i, "1")))
	}
	s.SettleOffers()
	id := s.startReplay(replay.Selection{}, 1)
	s.Until("the first page", s.asked("SELECT r.sent > 0 FROM audit_v1.replay_run AS r WHERE r.id = $1", id))
	s.decided(streams.ReplayPauseType, ingest.ReplayOf{Replay: id})
	if sent := ask[int](s, "SELECT r.sent FROM audit_v1.replay_run AS r WHERE r.id = $1", id); sent == 6 {
		t.Error("a replay of one delivery a second has sent six at once")
	}
	sent := ask[int](s, "SELECT r.sent FROM audit_v1.replay_run AS r WHERE r.id = $1", id)
	s.askForPage(id, "0") // that a worker has asked for before the pause
	s.decided(streams.ReplayResumeType, ingest.ReplayOf{Replay: id})
	s.Until("the next page", s.asked("SELECT r.sent > $2 FROM audit_v1.replay_run AS r WHERE r.id = $1", id, sent))
	s.decided(streams.ReplayCancelType, ingest.ReplayOf{Replay: id})
	body, err := json.Marshal(ingest.ReplayOf{Replay: id})
	if err != nil {
		t.Fatal(err)
	}
	if refusal := s.Command("t1", streams.ReplayResumeType, body, map[string]string{streams.ExtReason: "again"}); refusal != offer.ReasonSchemaInvalid {
		t.Errorf("a replay that has ended goes on: %q", refusal)
	}
	if refusal := s.Command("t2", streams.ReplayPauseType, body, map[string]string{streams.ExtReason: "not mine"}); refusal != offer.ReasonSchemaInvalid {
		t.Errorf("another tenant decides about it: %q", refusal)
	}
	s.verify()
}

func TestAReplayGoesOnWhereAKilledWorkerLeftIt(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	worker := s.StartIngest(ingest.Config{}, s.Archive)
	s.Start(pipeline.Relay)
	s.Start(pipeline.Project)
	s.ApplyFeed(specOf(t, ""))
	for i := range 6 {
		s.Publish(delivery(fmt.Sprintf("D-%d", i), row("A", i, "1")))
	}
	s.SettleOffers()
	id := s.startReplay(replay.Selection{}, 3)
	s.Until("the first page", s.asked("SELECT r.sent > 0 FROM audit_v1.replay_run AS r WHERE r.id = $1", id))
	worker.Kill()
	for _, asks := range []string{"0", "1"} { // in one batch, as after a pause
		s.Publish(s.pageEvent(id, asks))
	}
	s.StartIngest(ingest.Config{}, s.Archive)
	if got := s.awaitReplay(id); got != "duplicate 6" {
		t.Errorf("got %q, want duplicate 6", got)
	}
	s.verify()
}

func TestEvidenceThatIsGoneHasAnOutcome(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	var objects []string
	for i := range 4 {
		s.Publish(delivery(fmt.Sprintf("D-%d", i), row(fmt.Sprintf("A-%d", i), 1, "1")))
		s.SettleOffers()
		objects = append(objects, ask[string](s, `SELECT a.name FROM audit_v1.artifact AS a JOIN audit_v1.outcome AS o ON (o.tenant, o.topic_id, o.partition, o."offset") = (a.tenant, a.topic_id, a.partition, a."offset")
		                           WHERE o.event_id = $1`, fmt.Sprintf("D-%d", i)))
	}
	file := func(object string) string {
		return filepath.Join(s.Folder, filepath.FromSlash(path.Dir(object)+"."+path.Base(object)))
	}
	damaged, missing := file(objects[1]), file(objects[2])
	kept, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	broken := slices.Clone(kept)
	broken[len(broken)-1]++
	for name, content := range map[string][]byte{damaged: broken, missing: nil} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := "duplicate 2, quarantined 1 artifact_digest_mismatch, quarantined 1 artifact_missing"
	if got := s.replayAll(replay.Selection{}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, e := range s.entries("t1") {
		if e.Fault.Reason != offer.ReasonEvidenceUnavailable {
			t.Errorf("an entry says %+v", e.Fault)
		}
	}
}

func TestWhatNoFeedExpectsAnyMoreStaysItsTenants(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.Feed(s.rng, delivery("D", row("A", 1, "1")))
	s.SettleOffers()
	s.ApplyFeed(specOf(t, "accepts: {topics: [deliveries], source: /acme-eu/elsewhere}\n"))
	if got := s.replayAll(replay.Selection{}); got != "quarantined 1" {
		t.Errorf("got %q, want quarantined 1", got)
	}
	if e := s.entry("t1"); e.Fault.Reason != offer.ReasonUnknownFeed {
		t.Errorf("the tenant's entry says %+v", e.Fault)
	}
	if n := len(s.entries(offer.SystemTenant)); n > 0 {
		t.Errorf("%d entries are nobody's", n)
	}
	if n := ask[int](s, "SELECT count(*) FROM audit_v1.artifact AS a WHERE a.tenant = $1", offer.SystemTenant); n > 0 {
		t.Errorf("%d payloads of the tenant are kept as nobody's", n)
	}
	s.verify()
}

// A source that was down for a while reads its hour again from an earlier place, beside one that never was.
func TestS_004_04_an_hour_again_from_earlier_adds_only_what_was_missing(t *testing.T) {
	const other = "feed: other\nconnector: other\naccount: ACC-2\naccepts: {topics: [deliveries], source: /other/export}\n"
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.ApplyFeed(specOf(t, other))
	var never, down []*kgo.Record
	for i := range 8 {
		body := row(fmt.Sprintf("A-%d", i%3), i, fmt.Sprint(i))
		if i == 5 {
			body = `{"sku": "A-0", "rev": 5, "del": true}`
		}
		never = append(never, delivery(fmt.Sprintf("D-%d", i), body))
		down = append(down, delivery(fmt.Sprintf("D-%d", i), body, "source", "/other/export"))
	}
	s.Feed(s.rng, append(slices.Clone(never), down[:4]...)...)
	s.SettleOffers()
	before := len(s.Observations("t1"))
	s.Feed(s.rng, down[2:]...)
	s.SettleOffers()
	if got := len(s.Observations("t1")) - before; got != 4 {
		t.Errorf("the hour again added %d observations, want the 4 that were missing", got)
	}
	shown := func() map[string]string {
		of := map[string]string{}
		for _, o := range s.Offers("t1") {
			of[o.Account] += fmt.Sprintln(o.Record, o.Deleted, o.Version, o.Quantity)
		}
		return of
	}
	if got := shown(); got["ACC-1"] == "" || got["ACC-1"] != got["ACC-2"] {
		t.Errorf("the view of what was down:\n%swant, as if it never was:\n%s", got["ACC-2"], got["ACC-1"])
	}
	want, from := shown(), ask[string](s, "SELECT to_char(min(o.recorded_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM audit_v1.outcome AS o WHERE o.event_id = 'D-2'")
	at, err := offer.ParseTime(from)
	if err != nil {
		t.Fatal(err)
	}
	earlier := at.Time()
	sel := replay.Selection{From: &earlier}
	plan := s.plan(sel)
	if got := s.replayAll(sel); got != came(plan) || plan.Duplicate < 6 {
		t.Errorf("the hour from the archive: got %q, planned %+v, want repeats alone", got, plan)
	}
	if got := shown(); got["ACC-1"] != want["ACC-1"] || got["ACC-2"] != want["ACC-2"] || len(s.Observations("t1")) != before+4 {
		t.Errorf("after the hour from the archive: got %v, want %v", got, want)
	}
	s.verify()
}

func TestARecordThatWasNeverStoredIsTakenAsIfItStoodInItsTopic(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.ApplyFeed(specOf(t, "feed: theirs\ntenant: t2\nconnector: theirs\naccount: ACC-2\naccepts: {topics: [deliveries], source: /theirs}\n"))
	s.Feed(s.rng, delivery("D-1", row("A", 1, "1")))
	s.SettleOffers()
	s.replayAll(replay.Selection{Record: "none"}) // from now on somebody reads the topic
	live, taken := s.live(), time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	var records []*kgo.Record
	for _, r := range []*kgo.Record{delivery("D-1", row("A", 1, "1")), delivery("D-2", row("A", 2, "2")), delivery("T", row("B", 1, "1"), "source", "/theirs"),
		delivery("X", row("C", 1, "1"), "source", "/nobodys")} {
		r.Topic, r.Timestamp = streams.Replays, taken
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: streams.OriginTopic, Value: []byte(streams.Deliveries)})
		records = append(records, r)
	}
	s.Feed(s.rng, records...)
	s.Until("their outcomes", s.asked("SELECT count(*) = 8 FROM audit_v1.outcome AS o JOIN audit_v1.position AS p USING (lane) WHERE p.topic = $1", streams.Replays))
	got := map[string]int{}
	for _, o := range s.outcomes(streams.Replays, "") {
		got[o.Tenant+" "+o.EventID+" "+o.String()]++
	}
	want := map[string]int{"t1 D-1 duplicate": 2, "t1 D-2 accepted": 1, "t1 D-2 duplicate": 1, "t2 T accepted": 1, "t2 T duplicate": 1, "_system X unknown_feed": 2}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s.SettleOffers()
	for _, o := range s.Observations("t1") {
		if at := offer.TimeOf(taken).Text; o.Version == "2" && o.RetrievedAt != at {
			t.Errorf("what was never stored was fetched at %s, want its own time %s", o.RetrievedAt, at)
		}
	}
	if now := s.live(); now != live {
		t.Errorf("live work stood at %s, now at %s", live, now)
	}
	s.verify()
}

// standing is a digest of what replays must leave alone, at every moment: what was claimed and decided, and who came first.
func (s *scene) standing() string {
	s.t.Helper()
	return ask[string](s, `
		SELECT md5(string_agg(x.line, E'\n' ORDER BY x.line))
		  FROM (SELECT o::text AS line FROM audit_v1.observation AS o
		         UNION ALL
		        SELECT c::text FROM audit_v1.claim AS c
		         UNION ALL
		        SELECT d::text FROM audit_v1.eligibility AS d
		         UNION ALL
		        SELECT r::text FROM audit_v1.receipt AS r JOIN audit_v1.position AS p USING (lane) WHERE p.topic <> 'commands') AS x (line)`)
}

func TestS_004_05_AnyOverlapShuffleAndRepetitionOfReplaysChangesNothing(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.StartAll()
	s.ApplyFeed(specOf(t, ""))
	s.ApplyFeed(specOf(t, "feed: whole\naccount: ACC-2\naccepts: {topics: [deliveries], source: /whole}\nmode: snapshot\npolicy: {brake: {max_rows_lost: 100%}}\n"+weak))
	s.Feed(s.rng, delivery("D-1", row("A", 1, "1"), "runid", "EXP", "page", "1"), delivery("D-2", row("A", 3, "3"), "runid", "EXP", "page", "2"),
		delivery("D-3", row("A", 2, "2")), delivery("D-4", `{"sku": "B", "rev": 7, "del": true}`), delivery("D-5", row("B", 6, "6")),
		delivery("W-1", `[{"sku": "P", "qty": 1}, {"sku": "Q", "qty": 1}]`, "source", "/whole", "time", "2025-03-01T08:00:00Z"),
		delivery("W-2", `{"sku": "P", "qty": 2}`, "source", "/whole", "time", "2025-03-02T08:00:00Z"), delivery("bad", `{"sku": `))
	s.SettleOffers()
	s.Feed(s.rng, delivery("D-6", `[{"sku": "A", "rev": 3, "qty": 4}, {"sku": "C", "rev": 1, "qty": 1}]`), delivery("D-1", row("A", 1, "9"), "runid", "EXP", "page", "1"))
	s.SettleOffers()
	before, shown, live := s.standing(), fmt.Sprint(s.Offers("t1")), s.live()
	times := []*time.Time{nil, new(ask[time.Time](s, "SELECT min(o.recorded_at) FROM audit_v1.outcome AS o WHERE o.event_id = 'D-6'")), new(time.Now())}
	ids := 0
	rapid.Check(t, func(rt *rapid.T) {
		var starts []*kgo.Record
		for range rapid.IntRange(1, 3).Draw(rt, "replays") {
			sel := replay.Selection{Feed: rapid.SampledFrom([]string{"", "", "acme-eu", "whole"}).Draw(rt, "feed"), Run: rapid.SampledFrom([]string{"", "", "EXP"}).Draw(rt, "run"),
				Record: rapid.SampledFrom([]string{"", "", "A", "P", "none"}).Draw(rt, "record"), From: rapid.SampledFrom(times).Draw(rt, "from"), To: rapid.SampledFrom(times).Draw(rt, "to")}
			if rapid.Bool().Draw(rt, "of a topic") {
				sel.Topic, sel.Partition = streams.Deliveries, new(rapid.Int32Range(0, 2).Draw(rt, "partition"))
				sel.FromOffset, sel.ToOffset = new(rapid.Int64Range(0, 8).Draw(rt, "from offset")), new(rapid.Int64Range(0, 8).Draw(rt, "to offset"))
			}
			body, err := json.Marshal(ingest.ReplayStart{Selection: sel, Rate: 100_000})
			if err != nil {
				rt.Fatal(err)
			}
			ids++
			start := pipeline.Event(streams.Commands, "t1", body, map[string]string{"id": fmt.Sprint("R-", ids), "source": "/test", "type": streams.ReplayStartType,
				streams.ExtTenant: "t1", streams.ExtReason: "to be sure"})
			for range rapid.IntRange(1, 2).Draw(rt, "copies") {
				starts = append(starts, start)
			}
		}
		s.Publish(rapid.Permutation(starts).Draw(rt, "order")...)
		if got := s.standing(); got != before { // others are on their way
			rt.Fatalf("what stands has changed")
		}
	})
	s.Until("all replays to end", s.asked("SELECT count(*) = $1 AND bool_and(r.state = 'sent' AND r.sent = r.answered) FROM audit_v1.replay_run AS r", ids))
	s.SettleOffers()
	if got := s.standing(); got != before {
		t.Error("what stands has changed")
	}
	if got := fmt.Sprint(s.Offers("t1")); got != shown {
		t.Errorf("the view shows %s, want %s", got, shown)
	}
	if got := s.live(); got != live {
		t.Errorf("live work stood at %s, now at %s", live, got)
	}
	if got := ask[string](s, `SELECT string_agg(DISTINCT o.outcome, ', ') FROM audit_v1.outcome AS o JOIN audit_v1.position AS p USING (lane) WHERE p.topic = $1`, streams.Replays); got != "duplicate" {
		t.Errorf("what was replayed is %s, want repeats alone", got)
	}
	s.verify()
}

func TestALargePayloadIsReplayedThroughFiles(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	spool := filepath.Join(t.TempDir(), "spool")
	if err := os.Mkdir(spool, 0o700); err != nil {
		t.Fatal(err)
	}
	w := s.StartIngest(ingest.Config{Spool: spool}, s.Archive)
	s.Start(pipeline.Relay)
	s.Start(pipeline.Project)
	s.ApplyFeed(specOf(t, ""))
	cl, err := s.Cluster.NewPublisher()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	large := delivery("L", `[{"sku": "A", "rev": 1, "qty": 1, "note": "`+strings.Repeat("x", 5<<20)+`"}, {"sku": "B", "rev": 1, "qty": 2}]`)
	large.Topic = s.Cluster.Topic(large.Topic)
	if err := cl.ProduceSync(t.Context(), large).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.Publish(delivery("S", row("C", 1, "3")))
	s.SettleOffers()
	before := len(s.Observations("t1"))
	// Without a place for files it waits, and no payload is taken for lost.
	if err := os.Remove(spool); err != nil {
		t.Fatal(err)
	}
	id := s.startReplay(replay.Selection{}, 100_000)
	s.Until("ingest to say that files have no place", func(context.Context) (bool, error) { return len(w.Warnings()) > 0, nil })
	if err := os.Mkdir(spool, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := s.awaitReplay(id); got != "duplicate 2" {
		t.Errorf("got %q, want duplicate 2", got)
	}
	s.tidy(401 * day) // their receipts have expired
	plan := s.plan(replay.Selection{})
	if got := s.replayAll(replay.Selection{}); got != "accepted 2" || got != came(plan) {
		t.Errorf("beyond the horizon: got %q, planned %+v, want accepted 2", got, plan)
	}
	if got := len(s.Observations("t1")); got != before {
		t.Errorf("got %d observations, want the %d that there were", got, before)
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		t.Errorf("the spool holds %v, %v", left, err)
	}
	// An audit that has the archive alone reads it through files too, and row by row.
	ends, err := kadm.NewClient(s.Client).ListEndOffsets(t.Context(), s.Cluster.Topic(streams.Deliveries))
	if err == nil {
		_, err = kadm.NewClient(s.Client).DeleteRecords(t.Context(), ends.Offsets())
	}
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	t.Setenv("TMPDIR", files)
	s.verify()
	s.asSuperuser("UPDATE observation SET quantity = 9 WHERE record = 'B'")
	report, err := audit.Run(t.Context(), audit.Inputs{Pool: s.Pool, Cluster: s.Cluster, Archive: s.Archive, Mapper: auditMapper()})
	if err != nil {
		t.Fatal(err)
	}
	var told []int
	for _, i := range report.Invariants {
		for _, v := range i.Violations {
			if v.What == "a claim is not what its payload says" {
				told = append(told, v.Row)
			}
		}
	}
	if !slices.Equal(told, []int{2, 2}) { // as it was taken first, and beyond the horizon
		t.Errorf("a quantity was changed: told of rows %v, want row 2 of both acceptances", told)
	}
	if left, err := os.ReadDir(files); err != nil || len(left) > 0 {
		t.Errorf("the audit has left %v, %v", left, err)
	}
}
