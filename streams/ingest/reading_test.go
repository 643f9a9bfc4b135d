package ingest_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// mapped are the settings of a feed whose program of a version takes the record and the quantity from these.
func mapped(version int, record, quantity string) string {
	return fmt.Sprintf("mapping: {version: %d, fields: {source_record: %q, source_version: .rev, item: {mpn: .sku}, quantity: %q}}\n", version, record, quantity)
}

// remap reads the feed's deliveries under a mapping version and returns what became of them.
func (s *scene) remap(version int) string {
	s.t.Helper()
	sel := replay.Selection{Feed: "acme-eu", Mapping: version}
	plan := s.plan(sel)
	got := s.replayAll(sel)
	if want := came(plan); got != want {
		s.t.Errorf("remap under version %d: got %q, planned %q", version, got, want)
	}
	if again := s.plan(sel); again.Deliveries != plan.Quarantined {
		s.t.Errorf("remap under version %d: once it is done %d deliveries are left, want the %d that could not be read", version, again.Deliveries, plan.Quarantined)
	}
	return got
}

// preview is what the remap would come to.
func (s *scene) preview(version int) (p ingest.Preview) {
	s.t.Helper()
	m := ingest.Remap{Archive: s.Archive, Mapper: s.Mapper, Spool: s.t.TempDir(), Read: func(int) {}}
	err := postgres.Aside(s.t.Context(), s.Pool, postgres.Audit, "t1", func(tx pgx.Tx) error {
		var (
			fault *offer.Fault
			err   error
		)
		if p, fault, err = m.Preview(s.t.Context(), tx, "t1", replay.Selection{Feed: "acme-eu", Mapping: version}); fault != nil {
			s.t.Fatalf("preview of version %d: refused: %v", version, fault)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// added is the digest, as previews have it, of the observations that events of a topic have added.
func (s *scene) added(topic string) (sum offer.Digest) {
	s.t.Helper()
	err := s.inspect(s.t.Context(), func(tx pgx.Tx) error {
		rows, err := tx.Query(s.t.Context(), "SELECT o.id, o.row_hash FROM audit_v1.observation AS o JOIN audit_v1.position AS p ON p.lane = o.lane WHERE p.topic = $1", topic)
		if err != nil {
			return err
		}
		var (
			id      uuid.UUID
			content []byte
		)
		_, err = pgx.ForEachRow(rows, []any{&id, &content}, func() error {
			sum = sum.Plus(offer.Sum(append(id[:], content...)))
			return nil
		})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return sum
}

// rereads waits until what decisions on mapping versions have asked to be read again is read.
func (s *scene) rereads() {
	s.t.Helper()
	s.Until("what is to be read again to be read", s.asked("SELECT bool_and(r.state = 'sent' AND r.sent = r.answered) FROM audit_v1.replay_run AS r"))
	s.SettleOffers()
}

// kept is every object of the archive and every receipt, as they are.
func (s *scene) kept() string {
	s.t.Helper()
	return ask[string](s, `SELECT (SELECT string_agg(a.name || a.offsets::text || a.sha256::text, ' ' ORDER BY a.name) FROM audit_v1.artifact_object AS a JOIN audit_v1.position AS p ON (p.topic_id, p.partition) = (a.topic_id, a.partition) WHERE p.topic = 'deliveries')
	                            || (SELECT string_agg(o.event_id || o.rows || o.saved, ' ' ORDER BY o.lane, o."offset") FROM audit_v1.outcome AS o WHERE o.outcome = 'accepted' AND o.mapping_version > 0)`)
}

func TestS_004_17_a_mapping_that_was_wrong_for_days_is_mended(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 3, MaxRecords: 5})
	s.StartAll()
	s.ApplyFeed(specOf(t, mapped(1, `.sku + "-X"`, ".old")))
	const a, b, c = `{"sku": "A", "rev": 1, "old": 90, "qty": 9}`, `{"sku": "B", "rev": 1, "old": 80, "qty": 8}`, `{"sku": "C", "rev": 1, "old": "many", "qty": 7}`
	s.Feed(s.rng, delivery("D1", "["+a+","+b+"]"), delivery("D2", `{"sku": "A", "rev": 2, "old": 70, "qty": 6}`), delivery("D3", "["+b+","+c+"]"))
	s.SettleOffers()
	wrong := []string{"A-X 70", "B-X 80"}
	s.shows("wrong", wrong...)
	if open := ask[int](s, "SELECT count(*) FROM audit_v1.quarantine WHERE row > 0 AND state = 'open'"); open != 1 {
		t.Fatalf("got %d rows in quarantine, want the one without a number", open)
	}

	s.ApplyFeed(specOf(t, mapped(2, ".sku", ".qty")))
	s.Feed(s.rng, delivery("D4", `{"sku": "D", "rev": 1, "old": "none", "qty": 5}`))
	s.SettleOffers()
	s.shows("what was read before stands", append(wrong, "D 5")...)
	evidence := s.kept()
	p := s.preview(2)
	want := ingest.Preview{Deliveries: 3, Reread: 3, Quarantined: map[string]int{}, Rows: 5, Rejected: map[string]int{}, Added: 4, Digest: p.Digest,
		Offers: 5, ForSale: 2, Appears: 3, Vanishes: 2, Fields: map[string]int{}, Examples: p.Examples}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("preview: got %+v, want %+v", p, want)
	}
	for i, want := range []string{"A appears", "A-X vanishes", "B appears", "B-X vanishes", "C appears"} {
		if got := p.Examples[i].Record + " " + p.Examples[i].What; got != want {
			t.Errorf("preview: example %d is %q, want %q", i, got, want)
		}
	}
	if again := s.preview(2); again.Digest != p.Digest {
		t.Errorf("preview: got digest %s, want that of the one before, %s: it left something", again.Digest, p.Digest)
	}
	if got := s.remap(2); got != "reread 3" {
		t.Errorf("remap: got %q, want three deliveries read again", got)
	}
	if got := s.added(streams.Replays); got != p.Digest {
		t.Errorf("what was added has digest %s, the preview has %s", got, p.Digest)
	}
	right := []string{"A 6", "B 8", "C 7", "D 5"}
	s.shows("right", right...)
	s.verify()
	if got := s.kept(); got != evidence {
		t.Errorf("evidence: got %s, want what there was: %s", got, evidence)
	}
	if open := ask[int](s, "SELECT count(*) FROM audit_v1.quarantine WHERE row > 0 AND state = 'open'"); open != 0 {
		t.Errorf("got %d rows in quarantine, want none: the cause is mended", open)
	}
	versions := ask[string](s, "SELECT string_agg(format('%s@%s v%s', o.record, o.mapping_version, o.ord), ' ' ORDER BY o.record, o.mapping_version, o.ord) FROM audit_v1.observation AS o")
	if want := "A@2 v1 A@2 v2 A-X@1 v1 A-X@1 v2 B@2 v1 B-X@1 v1 C@2 v1 D@2 v1"; versions != want {
		t.Errorf("history: got %s, want every reading with the source's own versions: %s", versions, want)
	}

	t.Run("S_004_18 nothing is read twice, whatever is asked for again", func(t *testing.T) {
		if got := s.replayAll(replay.Selection{Feed: "acme-eu"}); got != "duplicate 4" {
			t.Errorf("replay: got %q, want four repeats", got)
		}
		s.shows("as before", right...)
	})
	t.Run("a mapping version is undone and back", func(t *testing.T) {
		undo := `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`
		s.decides(streams.RedoType, undo, offer.ReasonSchemaInvalid)
		s.decides(streams.UndoType, `{"mapping": {"feed": "acme-eu", "mapping_version": 3}}`, offer.ReasonSchemaInvalid)
		s.decides(streams.UndoType, undo, "")
		s.rereads()
		s.shows("the version before is in force, also for what came after it", "A-X 70", "B-X 80")
		s.verify()
		if got := ask[string](s, "SELECT string_agg(DISTINCT o.reason, ' ') FROM audit_v1.outcome AS o WHERE o.event_id = 'D4' AND o.outcome = 'quarantined'"); got != offer.ReasonSchemaInvalid {
			t.Errorf("what has no number in the old column: got %q, want it set aside", got)
		}
		s.decides(streams.UndoType, undo, offer.ReasonSchemaInvalid)
		s.decides(streams.UndoType, `{"mapping": {"feed": "acme-eu", "mapping_version": 1}}`, offer.ReasonSchemaInvalid)
		body, err := specOf(t, mapped(2, ".sku", ".qty")).JSON()
		if err != nil {
			t.Fatal(err)
		}
		s.decides(streams.FeedApplyType, string(body), offer.ReasonSchemaInvalid)
		s.Feed(s.rng, delivery("D5", `{"sku": "E", "rev": 1, "old": 40, "qty": 4}`))
		s.SettleOffers()
		s.shows("what comes meanwhile is read under it", "A-X 70", "B-X 80", "E-X 40")
		s.decides(streams.RedoType, undo, "")
		s.rereads()
		s.shows("back, also for what came meanwhile", append(right, "E 4")...)
		s.verify()
	})
}

// What was read under the newer version first is read under the older one when that comes into force, and the other way round: at
// no time do both count.
func TestOfTheReadingsOfADeliveryOneCounts(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	s.ApplyFeed(specOf(t, mapped(1, `.sku + "-1"`, ".qty")))
	s.ApplyFeed(specOf(t, mapped(2, `.sku + "-2"`, ".qty")))
	s.Feed(s.rng, delivery("D", `{"sku": "A", "rev": 1, "qty": 1}`))
	s.SettleOffers()
	s.shows("read under the second", "A-2 1")
	undo := `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`
	for range 2 {
		s.decides(streams.UndoType, undo, "")
		s.rereads()
		s.shows("read under the first", "A-1 1")
		s.verify()
		s.decides(streams.RedoType, undo, "")
		s.rereads()
		s.shows("read under the second again", "A-2 1")
		s.verify()
	}
	s.ApplyFeed(specOf(t, mapped(3, `.sku + "-3"`, ".qty")))
	if got := s.remap(3); got != "reread 1" {
		t.Errorf("remap: got %q, want one delivery read again", got)
	}
	s.shows("read under the third", "A-3 1")
	s.decides(streams.UndoType, undo, "")
	s.rereads()
	s.shows("what was out already is out of force too", "A-3 1")
	s.verify()
}

// What a catalogue has is what its pages say by the reading that counts, so a record that only the old reading had is gone, and
// one that only the old one lacked is there.
func TestACatalogueIsReadAgain(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	whole := func(version int, record string) string {
		return fmt.Sprintf("mode: snapshot\npolicy: {brake: {max_rows_lost: 100%%}}\norder: observed_at\nmapping: {version: %d, fields: {source_record: %q, item: {mpn: .sku}, quantity: .qty}}\n", version, record)
	}
	s.StartAll()
	s.ApplyFeed(specOf(t, whole(1, ".sku")))
	s.Feed(s.rng, delivery("W1", `[{"sku": "A", "ean": "A", "qty": 1}, {"sku": "B", "ean": "B", "qty": 1}, {"sku": "C", "ean": "C", "qty": 1}]`, "time", "2025-03-01T08:00:00Z"))
	s.Settle()
	s.Feed(s.rng, delivery("W2", `[{"sku": "A", "ean": "A", "qty": 2}, {"sku": "B", "ean": "C", "qty": 2}]`, "time", "2025-03-02T08:00:00Z"))
	s.SettleOffers()
	s.shows("C is lacking", "A 2", "B 2")
	s.ApplyFeed(specOf(t, whole(2, ".ean")))
	if got := s.remap(2); got != "reread 2" {
		t.Errorf("remap: got %q, want two deliveries read again", got)
	}
	s.shows("B is lacking", "A 2", "C 2")
	s.verify()
	s.decides(streams.UndoType, `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`, "")
	s.rereads()
	s.shows("C is lacking again", "A 2", "B 2")
	s.verify()
}

// A correction that a person has released stands in the place of what it corrects under the new mapping version too, whichever of the
// two is read first.
func TestACorrectionStandsAfterARemap(t *testing.T) {
	for what, first := range map[string]string{"the correction is read first": streams.Replays, "the original is read first": streams.Deliveries} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
			s.StartAll()
			s.ApplyFeed(specOf(t, mapped(1, ".sku", ".qty")))
			s.Feed(s.rng, delivery("D", `[{"sku": "A", "rev": 1, "qty": 1}, {"sku": "B", "rev": 1, "qty": 1}]`))
			s.SettleOffers()
			s.Feed(s.rng, delivery("D", `{"sku": "A", "rev": 1, "qty": 2}`))
			s.SettleOffers()
			if refused := s.decideEntries(streams.QuarantineReleaseType, "t1", s.entry("t1").ID); refused != "" {
				t.Fatalf("the release is refused: %s", refused)
			}
			s.Until("the correction to be taken", s.asked("SELECT count(*) = 1 FROM audit_v1.outcome AS o WHERE o.outcome = 'accepted' AND o.event_id = 'D;release=1'"))
			s.SettleOffers()
			s.shows("corrected", "A 2")
			s.ApplyFeed(specOf(t, mapped(2, `.sku + "-2"`, ".qty")))
			if got := s.replayAll(replay.Selection{Feed: "acme-eu", Mapping: 2, Topic: first}); got != "reread 1" {
				t.Errorf("remap of what came from %s: got %q, want one delivery read again", first, got)
			}
			s.remap(2)
			s.shows("corrected, and read again", "A-2 2")
			s.verify()
		})
	}
}

func TestUndoingAMappingVersionTellsWhatItHadCaused(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	s.ApplyFeed(specOf(t, mapped(1, `.sku + .lot`, ".qty")))
	s.ApplyFeed(specOf(t, mapped(2, ".sku", ".qty")))
	for i, lot := range []string{"x", "y"} {
		s.Feed(s.rng, delivery("D"+lot, fmt.Sprintf(`{"sku": "A", "lot": %q, "rev": 1, "qty": %d}`, lot, i+1)))
		s.SettleOffers()
	}
	s.shows("the lots are taken for one record, and contradict each other", "A 1")
	s.decides(streams.UndoType, `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`, "")
	command := ask[uuid.UUID](s, `SELECT o.delivery FROM audit_v1.outcome AS o JOIN audit_v1.position AS p ON p.lane = o.lane WHERE p.topic = 'commands' AND o.event_type = $1`, streams.UndoType)
	s.rereads()
	s.shows("they are two", "Ax 1", "Ay 2")
	s.asAuditor(func(ctx context.Context, tx pgx.Tx) error {
		caused, err := quarantine.Caused(ctx, tx, offer.DeliveryID(command))
		if err == nil && (len(caused) != 0) {
			t.Errorf("got %d conflicts that are left, want none: the row was read as another record", len(caused))
		}
		return err
	})
	if open := ask[int](s, "SELECT count(*) FROM audit_v1.quarantine AS q WHERE q.state = 'open'"); open != 0 {
		t.Errorf("got %d open entries, want none", open)
	}
	s.verify()
}

// catalogue are the settings of a snapshot feed whose rows say when they were observed, which is before the export was made.
func catalogue(version int, record, quantity string) string {
	return fmt.Sprintf("mode: snapshot\npolicy: {brake: {max_rows_lost: 100%%}}\norder: observed_at\n"+
		"mapping: {version: %d, fields: {source_record: %q, item: {mpn: .sku}, quantity: %q, observed_at: .ts}}\n", version, record, quantity)
}

// exported is a catalogue of a day in March.
func exported(id string, day int, rows ...string) *kgo.Record {
	for i, r := range rows {
		rows[i] = fmt.Sprintf(`{%s, "ts": "2025-03-%02dT07:00:00Z"}`, r, day)
	}
	return delivery(id, "["+strings.Join(rows, ",")+"]", "time", fmt.Sprintf("2025-03-%02dT08:00:00Z", day))
}

// remapAsPreviewed remaps, and holds what history got against the preview.
func (s *scene) remapAsPreviewed(version int) ingest.Preview {
	s.t.Helper()
	p := s.preview(version)
	s.remap(version)
	if got := s.added(streams.Replays); got != p.Digest {
		s.t.Errorf("what was added has digest %s, the preview has %s: %+v", got, p.Digest, p)
	}
	return p
}

// A deletion that a catalogue implied ranks above what its own rows say, where these are older than the catalogue.
func TestARecordThatACatalogueHasAfterAllIsNotDeleted(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	s.ApplyFeed(specOf(t, catalogue(1, ".sku", ".qty")))
	s.Feed(s.rng, exported("W1", 1, `"sku": "A", "ean": "A", "qty": 1`, `"sku": "B", "ean": "B", "qty": 1`, `"sku": "C", "ean": "C", "qty": 1`))
	s.Settle()
	s.Feed(s.rng, exported("W2", 2, `"sku": "A", "ean": "A", "qty": 2`, `"sku": "B", "ean": "C", "qty": 2`))
	s.SettleOffers()
	s.shows("C is lacking", "A 2", "B 2")
	s.ApplyFeed(specOf(t, catalogue(2, ".ean", ".qty")))
	s.remapAsPreviewed(2)
	s.shows("B is lacking", "A 2", "C 2")
	s.verify()
	second := `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`
	s.decides(streams.UndoType, second, "")
	s.rereads()
	s.shows("C is lacking again", "A 2", "B 2")
	s.verify()
	s.decides(streams.RedoType, second, "")
	s.rereads()
	s.shows("B is lacking again", "A 2", "C 2")
	s.verify()
}

// A catalogue that a version out of force has read lacks nothing until it is read again, and then what it has is not deleted.
func TestACatalogueIsNotEmptyBecauseItsMappingVersionIsUndone(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	s.ApplyFeed(specOf(t, catalogue(1, ".sku", ".qty")))
	s.Feed(s.rng, exported("W1", 1, `"sku": "A", "qty": 1`, `"sku": "B", "qty": 1`))
	s.Settle()
	s.ApplyFeed(specOf(t, catalogue(2, ".sku", ".new")))
	s.Feed(s.rng, exported("W2", 2, `"sku": "A", "qty": 2, "new": 2`, `"sku": "B", "qty": 2, "new": 2`))
	s.Settle()
	s.Feed(s.rng, exported("W3", 3, `"sku": "A", "new": 3, "qty": "no"`, `"sku": "B", "new": 3, "qty": "no"`))
	s.SettleOffers()
	s.shows("as the newest has it", "A 3", "B 3")
	s.decides(streams.UndoType, `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`, "")
	s.rereads()
	s.shows("as the newest has it that the first version can read", "A 2", "B 2")
	if implied := ask[int](s, "SELECT count(*) FROM audit_v1.observation AS o WHERE o.mapping_version = 0"); implied != 0 {
		t.Errorf("got %d deletions, want none, also on the way", implied)
	}
	s.verify()
}

// What was read for the first time by the remap is a record of the account, which an older catalogue has and the newest lacks.
func TestAPreviewOfACatalogueLacksWhatTheRemapLacks(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	s.ApplyFeed(specOf(t, catalogue(1, ".sku", ".qty")))
	s.Feed(s.rng, exported("W1", 1, `"sku": "A", "qty": 1`, `"sku": "B", "qty": 1`))
	s.Settle()
	s.Feed(s.rng, exported("W2", 2, `"sku": "A", "qty": 2`))
	s.SettleOffers()
	s.ApplyFeed(specOf(t, catalogue(2, `.sku + "-2"`, ".qty")))
	if p := s.remapAsPreviewed(2); p.Appears != 1 || p.Vanishes != 1 {
		t.Errorf("preview: %d appear and %d vanish, want one each", p.Appears, p.Vanishes)
	}
	s.shows("B is lacking under either name", "A-2 2")
	s.verify()
}

func TestARowThatCannotBeReadAnyMoreIsNotLacking(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	s.ApplyFeed(specOf(t, catalogue(1, ".sku", ".qty")))
	s.Feed(s.rng, exported("W1", 1, `"sku": "A", "qty": 1, "new": 4`, `"sku": "B", "qty": 1, "new": 5`))
	s.Settle()
	s.Feed(s.rng, exported("W2", 2, `"sku": "A", "qty": 2, "new": 6`, `"sku": "B", "qty": 2, "new": "many"`))
	s.SettleOffers()
	s.shows("both", "A 2", "B 2")
	s.ApplyFeed(specOf(t, catalogue(2, ".sku", ".new")))
	s.remapAsPreviewed(2)
	s.shows("B as it was last read", "A 6", "B 5")
	s.verify()
	s.decides(streams.UndoType, `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`, "")
	s.rereads()
	s.shows("both again", "A 2", "B 2")
	s.verify()
}

// The brake judges what the run has by the readings that count.
func TestTheBrakeHoldsARunThatLosesRecordsByItsNewReading(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	whole := func(version int, record string) string {
		return fmt.Sprintf("mode: snapshot\norder: observed_at\nmapping: {version: %d, fields: {source_record: %q, item: {mpn: '\"M\"'}, quantity: .qty}}\n", version, record)
	}
	s.ApplyFeed(specOf(t, whole(1, ".sku")))
	const all = `[{"sku": "A", "new": "A", "qty": 1}, {"sku": "B", "new": "A", "qty": 1}, {"sku": "C", "new": "A", "qty": 1}, {"sku": "D", "new": "A", "qty": 1}]`
	s.Feed(s.rng, delivery("W", all))
	s.SettleOffers()
	page := []string{"time", "2025-03-02T08:00:00Z", "runid", "R", "pages", "2", "page"}
	s.Feed(s.rng, delivery("P1", all, append(page, "1")...))
	s.SettleOffers()
	s.ApplyFeed(specOf(t, whole(2, ".new")))
	if got := s.replayAll(replay.Selection{Feed: "acme-eu", Mapping: 2, Run: "R"}); got != "reread 1" {
		t.Fatalf("remap of a run that is held: got %q", got)
	}
	s.Feed(s.rng, delivery("P2", `[{"sku": "A", "new": "A", "qty": 1}]`, append(page, "2")...))
	s.SettleOffers()
	if got := ask[string](s, "SELECT string_agg(d.verdict, ' ' ORDER BY d.recorded_at) FROM audit_v1.eligibility AS d WHERE d.kind = 'run'"); got != "completed braked" {
		t.Errorf("got %s, want the brake to hold what has one record of four", got)
	}
	s.shows("held", "A 1", "B 1", "C 1", "D 1")
	s.verify()
}

// A row that a person has released stands in the place of what it contradicts under the new mapping version too, and back.
func TestARowThatWasReleasedStandsAfterARemap(t *testing.T) {
	for what, first := range map[string]string{"the row is read first": streams.Replays, "the deliveries are read first": streams.Deliveries} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
			s.StartAll()
			s.ApplyFeed(specOf(t, mapped(1, ".sku", ".qty")))
			s.Feed(s.rng, delivery("D", `[{"sku": "A", "rev": 1, "qty": 1}, {"sku": "B", "rev": 1, "qty": 1}]`))
			s.SettleOffers()
			s.Feed(s.rng, delivery("E", `[{"sku": "A", "rev": 1, "qty": 2}, {"sku": "B", "rev": 1, "qty": 1}]`))
			s.SettleOffers()
			s.release("t1", s.entry("t1").ID)
			s.shows("corrected", "A 2", "B 1")
			s.ApplyFeed(specOf(t, mapped(2, `.sku + "-2"`, ".qty")))
			s.replayAll(replay.Selection{Feed: "acme-eu", Mapping: 2, Topic: first})
			s.remap(2)
			s.shows("corrected, and read again", "A-2 2", "B-2 1")
			s.verify()
			s.decides(streams.UndoType, `{"mapping": {"feed": "acme-eu", "mapping_version": 2}}`, "")
			s.rereads()
			s.shows("corrected, as it was read first", "A 2", "B 1")
			s.verify()
		})
	}
}

// What the new version cannot read stands as it was read, and what comes again under its key is a repeat of it, or contradicts it.
func TestADeliveryThatCannotBeReadAgainStands(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 2, MaxRecords: 3})
	s.StartAll()
	const strict = "policy: {invalid_row: delivery}\n"
	s.ApplyFeed(specOf(t, strict+mapped(1, ".sku", ".qty")))
	d, f := `[{"sku": "A", "rev": 1, "qty": 1, "new": 2}, {"sku": "B", "rev": 1, "qty": 1, "new": "x"}]`, `{"sku": "C", "rev": 1, "qty": 1, "new": 2}`
	s.Feed(s.rng, delivery("D", d), delivery("F", f))
	s.SettleOffers()
	s.ApplyFeed(specOf(t, strict+mapped(2, ".sku", ".new")))
	if p := s.preview(2); p.Deliveries != 2 || p.Reread != 1 || p.Quarantined[offer.ReasonSchemaInvalid+"/quantity_invalid"] != 1 {
		t.Errorf("preview: got %+v, want one of two to be unreadable", p)
	}
	s.replayAll(replay.Selection{Feed: "acme-eu", Mapping: 2})
	s.shows("one is read again", "A 1", "B 1", "C 2")
	s.verify()
	s.Feed(s.rng, delivery("D", d), delivery("F", f))
	s.wantTally("", "accepted 2, duplicate 6")
	s.Feed(s.rng, delivery("F", `{"sku": "C", "rev": 1, "qty": 1, "new": 9}`))
	s.wantTally("F", "accepted 1, duplicate 3, replay_payload_mismatch 2")
	s.ApplyFeed(specOf(t, strict+mapped(3, ".sku", ".qty")))
	if got := s.remap(3); got != "reread 2" {
		t.Errorf("remap: got %q, want both", got)
	}
	s.shows("both are read again", "A 1", "B 1", "C 1")
	if e := s.entry("t1"); e.EventID != "F" || e.Fault.Reason != offer.ReasonReplayPayloadMismatch {
		t.Errorf("got open entry %s %v, want the payload alone that contradicts", e.EventID, &e.Fault)
	}
	s.verify()
}
