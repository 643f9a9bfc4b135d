package audit_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// Places of the world that defects are planted at.
const (
	// Of the observation of record C, which one delivery states and nothing restates.
	recordC = ` WHERE record = 'C'`
	// Of the accepted outcome of that delivery.
	doomed = ` WHERE event_id = 'DOOMED' AND outcome = 'accepted'`
	// Of its duplicates.
	doomedAgain = ` WHERE event_id = 'DOOMED' AND outcome = 'duplicate'`
)

// defects are planted one by one behind offerlog's back. Each is found under the invariant that it breaks, and under those
// alone that it breaks with it.
var defects = map[string]struct {
	sql  string
	want string // the invariants, in order
	says string // of the first one that the defect is about
}{
	"an outcome is deleted":                      {`DELETE FROM outcome WHERE event_id = 'R-7' AND outcome = 'duplicate'`, "I1 I5 I8", "I1: an event of the log has no outcome"}, // and its result's number is nobody's
	"an outcome is of an offset beyond the lane": {`UPDATE outcome SET "offset" = "offset" + 1000` + doomedAgain, "I1", "I1: an outcome is not of what the lane has stored"},
	"an outcome is of an offset without a record": {`INSERT INTO outcome (lane, "offset", item, tenant, outcome, archived, retrieved_ns, recorded_at)
		SELECT l.id, n, 0, '_system', 'skipped', false, 0, now() FROM lane AS l CROSS JOIN generate_series(l.start, l.next - 1) AS n
		 WHERE l.topic = 'deliveries' AND NOT EXISTS (SELECT FROM outcome AS o WHERE o.lane = l.id AND o."offset" = n) LIMIT 1`, "I1 I7", "I1: an outcome has no event in the log"},
	"an item of a batch is renumbered":                {`UPDATE outcome SET item = 4 WHERE event_id = 'B-2' AND outcome = 'duplicate'`, "I1 I2", "I2: the outcomes of a record are not one for each item"},
	"an empty batch is refused":                       {`UPDATE outcome SET outcome = 'skipped' WHERE item = -1`, "I2 I7", "I2: the outcomes of a record are not one for each item"},
	"a receipt is deleted":                            {`DELETE FROM receipt AS r USING outcome AS o WHERE r.delivery = o.delivery AND o.event_id = 'DOOMED'`, "I3", "I3: an accepted delivery has no receipt"},
	"a receipt names another place":                   {`UPDATE receipt AS r SET "offset" = r."offset" + 1 FROM outcome AS o WHERE r.delivery = o.delivery AND o.event_id = 'DOOMED' AND o.outcome = 'accepted'`, "I3", "I3: receipt and accepted outcome differ"},
	"a receipt stands for nothing":                    {`INSERT INTO receipt (tenant, delivery, canonicalization, fingerprint, lane, "offset", item) SELECT 't1', gen_random_uuid(), 'json/1', '\x00', 1, 0, 0`, "I3", "I3: a receipt has no accepted outcome"},
	"a delivery is accepted twice":                    {`UPDATE outcome SET outcome = 'accepted', accepted_lane = NULL, accepted_offset = NULL, accepted_item = NULL` + doomedAgain, "I3 I4", "I3: a delivery is accepted more than once"},
	"a duplicate points elsewhere":                    {`UPDATE outcome SET accepted_offset = accepted_offset + 1` + doomedAgain, "I3", "I3: a repeat points at what is no acceptance of its delivery"},
	"a duplicate points nowhere":                      {`UPDATE outcome SET accepted_lane = NULL` + doomedAgain, "I3", "I3: a repeat points at no acceptance"},
	"a duplicate has another fingerprint":             {`UPDATE outcome SET fingerprint = sha256('x')` + doomedAgain, "I3", "I3: a duplicate has another fingerprint"},
	"a mismatch has another reason":                   {`UPDATE outcome SET reason = 'mapping_error' WHERE reason = 'replay_payload_mismatch'`, "I3", "I3: a repeat points at no acceptance, or what is none points at one"},
	"a fingerprint is not that of its payload":        {`WITH o AS (UPDATE outcome SET fingerprint = sha256('x') WHERE event_id = 'DOOMED') UPDATE receipt AS r SET fingerprint = sha256('x') FROM outcome AS o WHERE r.delivery = o.delivery AND o.event_id = 'DOOMED'`, "I3", "I3: the fingerprint of a delivery is not that of its payload"},
	"an artifact's row is deleted":                    {`DELETE FROM artifact WHERE tenant = 't1'`, "I4", "I4: an archived payload is in no object"},
	"an artifact is recorded longer":                  {`UPDATE artifact SET lengths[1] = lengths[1] + 1 WHERE tenant = 't1'`, "I4", "I4: an entry of an object is not what its row says"},
	"an artifact is recorded with another digest":     {`UPDATE artifact SET sums[1] = sha256('x') WHERE tenant = 't1'`, "I4", "I4: an entry of an object is not what its row says"},
	"an artifact is recorded as of other offsets":     {`UPDATE artifact SET last = last + 1 WHERE tenant = 't1'`, "I4", "I4: an object does not have the name"},
	"an artifact is of another tenant":                {`UPDATE artifact SET tenant = 't2' WHERE tenant = 't1'`, "I4", "I4: "},
	"a tenant's key is destroyed, and no row says so": {`UPDATE tenant_key SET wrapped = NULL, destroyed_at = now() WHERE tenant = 't1'`, "I4", "I4: an object cannot be opened"},
	"an object is said to be shredded":                {`UPDATE artifact SET state = 'shredded' WHERE tenant = 't1'`, "I4", "I4: an object is not stored any more, and no receipt says why"},
	"an object is said to be expired, by a receipt of something else": {`WITH p AS (INSERT INTO pruning (tenant, id, kind, removed, reason, recorded_at) VALUES ('t1', gen_random_uuid(), 'keys', 1, 'none', now()) RETURNING id)
		UPDATE artifact SET state = 'expired', pruning = (SELECT id FROM p) WHERE tenant = 't1'`, "I4", "I4: an object is not stored any more, and no receipt says why"},
	"an accepted payload is not archived":  {`UPDATE outcome SET archived = false` + doomed, "I4", "I4: a payload is not archived"},
	"a price is changed":                   {`UPDATE observation SET price = price + 1` + recordC, "I5 I6 I9 I19", "I5: a claim is not what its payload says"},
	"a claim's time is changed":            {`UPDATE observation SET observed_at = '2025-03-02T07:00:09Z', observed_ns = observed_ns + 86400000000000` + recordC, "I5 I9 I19", "observed at 2025-03-02T07:00:09Z, want 2025-03-01T07:00:09Z"},
	"a claim is given to another row":      {`UPDATE observation SET row = 2` + recordC, "I5 I9 I19", "I5: a claim has no row in its payload"},
	"a claim is given to another delivery": {`UPDATE observation SET delivery = gen_random_uuid()` + recordC, "I5 I9 I19", "I5: history holds a claim of a delivery that did not make it"},
	"a rejected row is forgotten":          {`UPDATE outcome SET rejections = NULL WHERE event_id = 'D-6' AND outcome = 'accepted'`, "I5", "I5: a row that must be rejected is not"},
	"a row is rejected without a cause":    {`UPDATE outcome SET rejections = '[{"reason": "schema_invalid", "row": 1}]'` + doomed, "I5", "I5: a row is rejected that its payload does not reject"},
	"a conflict is with what does not contradict": {`WITH gone AS (DELETE FROM observation` + recordC + ` RETURNING 1)
		UPDATE outcome SET rejections = '[{"reason": "revision_conflict", "row": 1}]', saved = 0, rejected = 1, first_seq = NULL, last_seq = NULL` + doomed, "I5 I8 I9 I12 I18", "I5: a row is rejected as a conflict with what does not contradict it"},
	"a row count is changed":                      {`UPDATE outcome SET saved = 0, old = 1, rejected = 1` + doomed, "I5", "I5: the row counts of an outcome do not add up"},
	"a result is counted as another":              {`UPDATE outcome SET saved = 0, duplicate = 1` + doomed, "I5", "I5: the row counts of a delivery are not those of its claims"},
	"a mapping version is changed":                {`UPDATE mapping SET spec = jsonb_set(spec, '{fields,quantity}', '".rev"') WHERE feed = 'strong'`, "I5", "I5: a mapping version is not what was applied"},
	"a delivery's mapping version is changed":     {`UPDATE outcome SET mapping_version = 2` + doomed, "I5", "I5: a delivery was read under a mapping version that does not exist"},
	"an observation's id is changed":              {`UPDATE observation SET id = gen_random_uuid()` + recordC, "I5 I6 I9 I12 I18 I19", "I6: an observation is not the one that its columns name"},
	"an observation's digest is changed":          {`UPDATE observation SET content = sha256('x')` + recordC, "I5 I6 I12 I17 I18 I19", "I6: an observation's content does not have its digest"},
	"a sighting restates nothing":                 {`UPDATE sighting SET ord = ord + 1 WHERE (lane, seq) = (SELECT lane, seq FROM sighting ORDER BY lane, seq LIMIT 1)`, "I5 I6 I9 I19", "I6: a sighting restates an observation that does not exist"},
	"an entry of quarantine is deleted":           {`DELETE FROM quarantine WHERE reason = 'replay_payload_mismatch'`, "I6", "I6: an entry of quarantine is gone, and no receipt says why"},
	"the pages of runs are deleted":               {`DELETE FROM run_page`, "I6", "I6: what came of a run is gone, and no receipt says why"},
	"a deletion that a catalogue implies is lost": {`DELETE FROM observation WHERE record = 'Y' AND mapping_version = 0`, "I5 I8 I9 I12 I17 I18 I19", "I5: a record that the newest snapshot lacks is not deleted"},
	"a deletion is of another run":                {`UPDATE observation SET run = gen_random_uuid() WHERE record = 'Y' AND mapping_version = 0`, "I5 I6 I9 I12 I17 I18 I19", "I5: a deletion follows from no snapshot"},
	"a catalogue is taken later":                  {`UPDATE decision SET as_of = as_of + 1 WHERE as_of = (SELECT max(as_of) FROM decision)`, "I5 I9 I12 I17 I18 I19", "I5: a deletion follows from no snapshot"},
	"a journal interval is doubled":               {`INSERT INTO commit_journal SELECT lane, from_offset + 1, to_offset, from_seq, to_seq, worker, recorded_at FROM commit_journal WHERE to_offset > from_offset + 1 LIMIT 1`, "I7", "I7: a committed interval does not follow the one before"},
	"a journal interval is missing":               {`DELETE FROM commit_journal AS j WHERE from_offset = (SELECT start FROM lane WHERE id = j.lane) AND lane = (SELECT min(id) FROM lane WHERE topic = 'deliveries')`, "I7", "I7: a committed interval does not follow the one before"},
	"a lane is moved":                             {`UPDATE lane SET next = next + 1 WHERE topic = 'commands'`, "I7", "I7: the committed intervals do not end where the lane stands"},
	"what is stored is let go":                    {`INSERT INTO gap SELECT id, gen_random_uuid(), start, next, 'log_gap', '', '', NULL, now() FROM lane WHERE topic = 'deliveries' AND next > start`, "I7", "I7: an outcome lies in a gap"},
	"a lane is retired by nobody":                 {`UPDATE lane SET retired_at = now() WHERE topic = 'commands'`, "I7", "I7: a lane is retired and nobody decided it"},
	"a number is skipped":                         {`UPDATE observation SET seq = seq + 1000` + recordC, "I5 I8 I9 I12 I18 I19", "I8: numbers are missing in history"},
	"a row of the outbox is lost":                 {`DELETE FROM outbox WHERE ctid IN (SELECT ctid FROM outbox ORDER BY lane, first LIMIT 1)`, "I8", "I8: numbers are missing in the outbox"},
	"a number is in the outbox twice":             {`INSERT INTO outbox SELECT 2, lane, first, last, kind, topic, key, event_id, event_type, body, recorded_at FROM outbox ORDER BY lane, first LIMIT 1`, "I8", "I8: a number is in the outbox twice"},
	"the sequence of a lane jumps":                {`UPDATE lane SET sequence = sequence + 1 WHERE id = (SELECT min(lane) FROM observation)`, "I5 I7 I8", "I8: history does not end at the lane's sequence"},
	"an event of the outbox is changed":           {`UPDATE outbox SET body = '{}' WHERE event_type = 'offerlog.offer.changed.v1'`, "I9", "I9: a published event is not what is stored"},
	"a result in the outbox is changed":           {`UPDATE outbox SET body = '{}' WHERE ctid IN (SELECT ctid FROM outbox WHERE event_type = 'offerlog.delivery.result.v1' LIMIT 1)`, "I9", "delivery-results"},
	"a result is told under another id":           {`UPDATE outbox SET event_id = gen_random_uuid() WHERE ctid IN (SELECT ctid FROM outbox WHERE event_type = 'offerlog.delivery.result.v1' LIMIT 1)`, "I9", "I9: a published event is not what is stored"},
	"a retrieval time is changed":                 {`UPDATE observation SET retrieved_ns = retrieved_ns + 1` + recordC, "I9 I19", "I9: a published event is not what is stored"},
	"a cursor's copy is ahead":                    {`UPDATE relay_cursor SET published = published + 1 WHERE lane = (SELECT min(lane) FROM relay_cursor)`, "I11", "I11: the copy of a cursor is ahead of the log"},
	"another observation is shown":                {`UPDATE current_offer SET (strong, ord, mapping_version, content, observation) = (SELECT strong, ord, mapping_version, content, id FROM observation WHERE record = 'A' AND strong ORDER BY ord LIMIT 1) WHERE record = 'A' AND account = 'ACC-1'`, "I12 I19", "I12: the view does not show the fold of the claims"},
	"a flag is lost":                              {`UPDATE current_offer SET flags = '{}' WHERE flags <> '{}'`, "I12 I19", "I12: the view does not show the fold of the claims"},
	"a deletion is lost":                          {`UPDATE current_offer SET deleted = false WHERE deleted`, "I12 I19", "I12: the view does not show the fold of the claims"},
	"an offer is removed from the view":           {`DELETE FROM current_offer` + recordC, "I12 I17 I19", "I12: an offer is not in the view"},
	"an offer is in another partition":            {`UPDATE current_offer SET partition = 99` + recordC, "I12 I17", "I12: an offer is in another partition than its key"},
	"the view shows what nothing claims":          {`INSERT INTO current_offer SELECT tenant, generation, gen_random_uuid(), partition, account, 'Z', strong, ord, mapping_version, content, observation, deleted, flags FROM current_offer` + recordC, "I12", "I12: the view shows an offer that nothing claims"},
	"a checkpoint is moved back":                  {`UPDATE projection SET next = 0 WHERE partition = 0`, "I13", "I13: an event at or above the checkpoint is applied"},
	"a checkpoint is moved on":                    {`UPDATE projection SET next = next + 5 WHERE partition = 0`, "I13", "I13: a checkpoint and the lane of its partition differ"},
	"an applied number is lost":                   {`UPDATE projection SET applied = array_fill(0::bigint, ARRAY[cardinality(applied)]) WHERE partition = 0`, "I12 I13 I19", "I13: an event below the checkpoint is not applied"},
	"a number is applied that never came":         {`UPDATE projection SET applied[1] = applied[1] + 1000 WHERE partition = 0`, "I13", "I13: a checkpoint has applied a number that no event below it has"},
	"a publication says something else":           {`UPDATE publication SET digest = sha256('x') WHERE offer = (SELECT offer FROM current_offer` + recordC + `)`, "I17 I19", "I17: what is published of an offer is not what its claims say"},
	"a publication is forgotten":                  {`DELETE FROM publication WHERE offer = (SELECT offer FROM current_offer` + recordC + `)`, "I17", "I17: what is published of an offer is not what its claims say"},
	"a revision is beyond its lane":               {`UPDATE publication SET revision = revision + 1000 WHERE offer = (SELECT offer FROM current_offer` + recordC + `)`, "I13", "I13: a revision is above the last number of its lane"},
	"a deleted offer has returned": {`INSERT INTO offer_change SELECT c.tenant, c.offer, p.revision + 1, o.strong, o.ord, o.id, '{}', NULL, now()
		FROM current_offer AS c JOIN publication AS p USING (tenant, offer) JOIN observation AS o ON (o.tenant, o.offer) = (c.tenant, c.offer) AND o.ord < c.ord
		WHERE c.record = 'E' AND c.deleted`, "I16", "I16: a deleted offer has returned with no higher rank, and by no decision"},
	"the pointer names a generation that is retired": {`UPDATE generation SET retired_at = now()`, "I18", "I18: not one generation that stands is active"},
	"a manifest states another digest":               {`UPDATE generation SET manifest = jsonb_set(manifest, '{digest}', to_jsonb(repeat('ab', 32)))`, "I18", "I18: a manifest does not follow from history"},
	"a manifest states an offer more":                {`UPDATE generation SET manifest = jsonb_set(manifest, '{offers}', to_jsonb((manifest ->> 'offers')::int + 1))`, "I18", "I18: a manifest does not follow from history"},
	"a manifest is of other positions":               {`UPDATE generation SET manifest = jsonb_set(manifest, '{partitions,0,upto}', (SELECT jsonb_agg(0) FROM jsonb_array_elements(manifest #> '{partitions,0,upto}')))`, "I18", "I18: a manifest does not follow from history"},
	"a manifest is of another generation":            {`UPDATE generation SET manifest = jsonb_set(manifest, '{generation}', '7')`, "I18", "I18: a manifest is not of its generation"},
	"a partition publishes no generation":            {`UPDATE projection SET publishes = false WHERE partition = 0`, "I18", "I18: a partition does not publish one generation that stands"},
	"a generation is left behind": {`WITH g AS (INSERT INTO generation (id) VALUES (2) RETURNING id)
		INSERT INTO projection (generation, partition, topic_id, lane, next, lanes, applied) SELECT g.id, p.partition, p.topic_id, p.lane, p.next - 1, p.lanes, p.applied FROM projection AS p, g`, "I18", "I18: a generation does not stand where the active one stands"},
	"a generation is active that nobody has counted": {`WITH g AS (INSERT INTO generation (id) VALUES (2) RETURNING id),
		     c AS (INSERT INTO current_offer (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content, observation, deleted, flags, item)
		           SELECT o.tenant, g.id, o.offer, o.partition, o.account, o.record, o.strong, o.ord, o.mapping_version, o.content, o.observation, o.deleted, o.flags, o.item FROM current_offer AS o, g),
		     p AS (INSERT INTO projection SELECT g.id, p.partition, p.topic_id, p.lane, p.next, p.lanes, p.applied, false FROM projection AS p, g)
		UPDATE generation_pointer SET active = 2`, "I18", "I18: the active generation has no manifest"},
}

func TestPlantedDefectsAreFound(t *testing.T) {
	w := newWorld(t, pipeline.Options{})
	for name, d := range defects {
		t.Run(name, func(t *testing.T) {
			in, super := w.copy(t)
			tag, err := super.Exec(t.Context(), d.sql)
			if err != nil || tag.RowsAffected() == 0 {
				t.Fatalf("plant the defect: %v, %v", tag, err)
			}
			r := run(t, in)
			if got := violated(r); got != d.want || !strings.Contains(text(t, r), d.says) {
				t.Errorf("got violations of %q, want %q and %q; the report:\n%s", got, d.want, d.says, text(t, r))
			}
		})
	}
}

func TestS_003_29_ALostObservationIsNamedWithItsDeliveryAndArtifact(t *testing.T) {
	w := newWorld(t, pipeline.Options{})
	in, super := w.copy(t)
	var observation, delivery, artifact string
	err := super.QueryRow(t.Context(), `SELECT o.id, o.delivery, x.artifact_id FROM audit_v1.observation AS o JOIN audit_v1.outcome AS x USING (delivery)
	                                     WHERE o.record = 'C' AND x.outcome = 'accepted'`).Scan(&observation, &delivery, &artifact)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := super.Exec(t.Context(), "DELETE FROM observation"+recordC); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]audit.Inputs{"with the log": in, "without": {Pool: in.Pool, Archive: in.Archive, Mapper: in.Mapper}} {
		t.Run(name, func(t *testing.T) {
			r := run(t, in)
			for _, v := range r.Invariants[4].Violations {
				if v.What == "a row of a payload is in no observation and no sighting" && v.Tenant == "t1" && v.Offer == "t1/ACC-1/C" &&
					v.Observation == observation && v.Delivery == delivery && v.Object == artifact && v.Row == 1 {
					return
				}
			}
			t.Errorf("no violation of I5 names it; the report:\n%s", text(t, r))
		})
	}
}

func TestADamagedArchiveIsFound(t *testing.T) {
	w := newWorld(t, pipeline.Options{})
	in, _ := w.copy(t)
	var objects []string // of tenant t1, by size: the largest last
	err := fs.WalkDir(os.DirFS(w.archive), "t1", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			objects = append(objects, filepath.Join(w.archive, path))
		}
		return err
	})
	if err != nil || len(objects) < 2 {
		t.Fatalf("got objects %v, %v, want two", objects, err)
	}
	for name, d := range map[string]struct {
		damage func(content []byte) []byte // nil: the object is removed
		says   string
	}{
		"a byte of a payload is flipped": {func(b []byte) []byte { b[len(b)-20] ^= 1; return b }, "I4: an object is damaged"},
		"a byte of the table is flipped": {func(b []byte) []byte { b[40] ^= 1; return b }, "I4: an object is damaged"},
		"an object is cut off":           {func(b []byte) []byte { return b[:len(b)-1] }, "I4: an object is damaged"},
		"an object is empty":             {func([]byte) []byte { return []byte{} }, "I4: an object is damaged"},
		"an object is another one":       {func([]byte) []byte { b, _ := os.ReadFile(objects[1]); return b }, "I4: an object is damaged"},
		"an object is gone":              {nil, "I4: an object is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(objects[0])
			if err != nil {
				t.Fatal(err)
			}
			replace := func(content []byte) {
				if err := os.Remove(objects[0]); err != nil && content == nil {
					t.Fatal(err)
				}
				if content != nil {
					if err := os.WriteFile(objects[0], content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			defer replace(content)
			if d.damage == nil {
				replace(nil)
			} else {
				replace(d.damage([]byte(string(content))))
			}
			if r := run(t, in); violated(r) != "I4" || !strings.Contains(text(t, r), d.says) {
				t.Errorf("want %q and nothing else; the report:\n%s", d.says, text(t, r))
			}
		})
	}
}

func TestADamagedLogIsFound(t *testing.T) {
	audit.ShortOpenTransactions(t, 0)
	w := newWorld(t, pipeline.Options{})
	client, err := w.Cluster.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	produce := func(r *kgo.Record) {
		t.Helper()
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// altered is a published record with other headers.
	altered := func(r *kgo.Record, headers map[string]string) *kgo.Record {
		c := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			if v, ok := headers[h.Key]; ok {
				h.Value = []byte(v)
			}
			c.Headers = append(c.Headers, h)
		}
		return c
	}
	observation, change, result := w.Committed(streams.Observations)[0], w.Committed(streams.CurrentOffers)[0], w.Committed(streams.DeliveryResults)[0]
	before := ""
	// Nothing leaves a log again, so each defect comes on top of those before it.
	for _, d := range []struct {
		name  string
		plant func()
		says  []string
	}{
		{"a record that is no event of ours", func() { produce(&kgo.Record{Topic: observation.Topic, Value: []byte("stray")}) }, []string{"I9: a record is no event of ours"}},
		{"an event of no lane", func() { produce(altered(observation, map[string]string{"ce_lane": "99"})) }, []string{"I9: a record is no event of ours"}},
		{"an event of a number that nobody gave", func() { produce(altered(observation, map[string]string{"ce_laneseq": "5000"})) }, []string{"I9: an event has a number that its lane has not given"}},
		{"an event again", func() { produce(altered(observation, nil)) },
			[]string{"I9: an event is published twice", "I10: the numbers of a lane do not rise", "I13: an event at or above the checkpoint is applied"}},
		{"a change again", func() { produce(altered(change, nil)) }, []string{"I9: an event is published twice", "I10: the numbers of a lane do not rise"}},
		{"a change of a number that nobody gave", func() { produce(altered(change, map[string]string{"ce_laneseq": "5000"})) }, []string{"I9: an event has a number that its lane has not given"}},
		{"a result again", func() { produce(altered(result, nil)) }, []string{"I9: an event is published twice", "I10: the numbers of a lane do not rise"}},
		{"a result of a number that nobody gave", func() { produce(altered(result, map[string]string{"ce_laneseq": "5000"})) }, []string{"I9: an event has a number that its lane has not given"}},
		{"a replay of no lane", func() {
			r := altered(result, map[string]string{"ce_lane": "99"})
			r.Topic, r.Partition = w.Cluster.Topic(streams.Replays), 0
			produce(r)
		}, []string{"I9: a record is no event of ours"}},
		{"a cursor beyond the lane", func() {
			produce(&kgo.Record{Topic: w.Cluster.Topic(streams.RelayCursor), Key: []byte("1"), Value: []byte(`{"lane": 1, "published": 5000}`)})
		}, []string{"I11: the log's cursor is beyond the last number of its lane"}},
		{"an open transaction", func() {
			open, err := w.Cluster.NewClient(kgo.TransactionalID("open"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(open.Close)
			if err := open.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := open.ProduceSync(t.Context(), &kgo.Record{Topic: observation.Topic, Value: []byte("open")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}, []string{"I11: a transaction stays open"}},
		{"an event of the input topic that nobody settled", func() {
			w.Publish(event("/strong", "UNSETTLED", "[]"))
			if _, err := w.super(t).Exec(t.Context(), `UPDATE lane SET next = next + 1 WHERE topic = 'deliveries'`); err != nil {
				t.Fatal(err)
			}
		}, []string{"I1: an event of the log has no outcome"}},
	} {
		d.plant()
		now := text(t, run(t, w.inputs()))
		for _, says := range d.says {
			if strings.Count(now, says) <= strings.Count(before, says) {
				t.Errorf("%s: no %q is added; the report:\n%s", d.name, says, now)
			}
		}
		before = now
	}
}

// super returns a connection to the world's own database for what no role of offerlog may do.
func (w *world) super(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), rig.DatabaseAsSuperuser(t, w.DSN))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // it has answered
	return conn
}
