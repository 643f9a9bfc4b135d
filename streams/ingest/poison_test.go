package ingest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// noise is a text of n bytes that no index compresses.
func (s *scene) noise(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[s.rng.IntN(len(letters))]
	}
	return string(b)
}

// headers is a record with these headers and nothing else.
func headers(value string, pairs ...string) *kgo.Record {
	r := &kgo.Record{Topic: streams.Deliveries, Value: []byte(value)}
	for pair := range slices.Chunk(pairs, 2) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: pair[0], Value: []byte(pair[1])})
	}
	return r
}

// one kind of poison each, with what it comes to.
func (s *scene) poison() map[string]struct {
	record *kgo.Record
	want   string
} {
	type kind = struct {
		record *kgo.Record
		want   string
	}
	good := row("P", 1, "1")
	return map[string]kind{
		"bytes without headers":              {headers("\x00\xff\xfe"), "not_a_cloudevent"},
		"a null value":                       {&kgo.Record{Topic: streams.Deliveries}, "not_a_cloudevent"},
		"a structured event that is cut":     {headers(`{"specversion":"1.0","id":"x`, "content-type", "application/cloudevents+json"), "not_a_cloudevent"},
		"an unknown format":                  {headers("<event/>", "content-type", "application/cloudevents+xml"), "unsupported_format"},
		"NUL in the id":                      {delivery("a\x00b", good), "not_a_cloudevent"},
		"NUL in the id, structured":          {headers(strings.Replace(structured("a~b", good, ""), "~", `\u0000`, 1), "content-type", "application/cloudevents+json"), "not_a_cloudevent"},
		"NUL in the source":                  {delivery("nul-source", good, "source", "/acme\x00eu"), "not_a_cloudevent"},
		"NUL in the type":                    {delivery("nul-type", good, "type", "offerlog\x00"), "not_a_cloudevent"},
		"NUL in an attribute's name":         {headers(good, "ce_specversion", "1.0", "ce_id", "x", "ce_source", "/acme-eu/export", "ce_type", streams.DeliveryType, "ce_a\x00b", "c"), "not_a_cloudevent"},
		"bad UTF-8 in the id":                {delivery("a\xffb", good), "not_a_cloudevent"},
		"bad UTF-8 in an extension":          {delivery("bad-extension", good, "note", "\xc3\x28"), "not_a_cloudevent"},
		"bad UTF-8 in the content type":      {headers(good, "content-type", "application/\xff", "ce_specversion", "1.0", "ce_id", "bad-type", "ce_source", "/acme-eu/export", "ce_type", streams.DeliveryType), "not_a_cloudevent"},
		"a long id":                          {delivery(strings.Repeat("x", 100_000), good), "not_a_cloudevent"},
		"a long run id":                      {delivery("long-run", good, "runid", s.noise(60_000)), "not_a_cloudevent"},
		"a long source":                      {delivery("long-source", good, "source", "/"+s.noise(1023)), "unknown_feed"},
		"a long type":                        {delivery("long-type", good, "type", s.noise(60_000)), "unknown_feed"},
		"an unknown type":                    {delivery("unknown-type", good, "type", "com.example.order.v1"), "unknown_feed"},
		"a source that no feed expects":      {delivery("unknown-source", good, "source", "/somebody/else"), "unknown_feed"},
		"NUL in the payload":                 {delivery("nul-payload", "\x00"), "schema_invalid"},
		"NUL in a record's name":             {delivery("nul-record", `{"sku": "a\u0000b", "rev": 1, "qty": 1}`), "invalid_text"},
		"NUL in a number":                    {delivery("nul-number", `{"sku": "a", "rev": 1, "qty": "1\u00002"}`), "schema_invalid"},
		"NUL in a version":                   {delivery("nul-version", `{"sku": "a", "rev": "1\u00002", "qty": 1}`), "schema_invalid"},
		"NUL in an unknown member":           {delivery("nul-member", `{"sku": "n", "rev": 1, "qty": 1, "a\u0000b": "\u0000"}`), "accepted"},
		"an unpaired surrogate":              {delivery("surrogate", `{"sku": "a\ud800", "rev": 1, "qty": 1}`), "invalid_text"},
		"bad UTF-8 in the payload":           {delivery("bad-payload", "{\"sku\": \"\xff\", \"rev\": 1}"), "invalid_text"},
		"a payload that is no JSON":          {delivery("no-json", "sku;rev;qty"), "schema_invalid"},
		"no payload":                         {delivery("no-data", ""), "schema_invalid"},
		"a very long record name":            {delivery("long-record", row(s.noise(60_000), 1, "1")), "schema_invalid"},
		"a number of many digits":            {delivery("digits", row("D", 1, strings.Repeat("9", 60))), "number_out_of_range"},
		"a version beyond 63 bits":           {delivery("version", `{"sku": "v", "rev": 99999999999999999999, "qty": 1}`), "version_out_of_range"},
		"a page of a run that is no page":    {delivery("page-0", good, "runid", "r", "page", "0"), "not_a_cloudevent"},
		"a page that is no number":           {delivery("page-x", good, "runid", "r", "page", "x"), "not_a_cloudevent"},
		"a time of long ago":                 {delivery("old-time", good, "time", "0001-01-01T00:00:00Z"), "not_a_cloudevent"},
		"a batch of nothing":                 {batchOf(), "accepted"},
		"a batch that is no list":            {headers(`{}`, "content-type", "application/cloudevents-batch+json"), "not_a_cloudevent"},
		"a batch of what is no event":        {batchOf(`7`), "not_a_cloudevent"},
		"nested far beyond every limit":      {delivery("deep", strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)), "schema_invalid"},
		"a payload that a timestamp lies of": {&kgo.Record{Topic: streams.Deliveries, Value: []byte("x"), Timestamp: farAway}, "not_a_cloudevent"},
	}
}

func TestPoisonStopsNothing(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	kinds := s.poison()
	names := slices.Sorted(maps.Keys(kinds))
	var records []*kgo.Record
	for _, name := range names {
		records = append(records, kinds[name].record)
	}
	// Good ones among them, all as the publishers of several suppliers may mix them.
	const good = 20
	for i := range good {
		records = append(records, delivery(fmt.Sprint("good", i), row(fmt.Sprint("G", i), 1, "1")))
	}
	places := s.Feed(s.rng, records...)
	s.ingested()
	got := map[string]outcome{}
	for _, o := range s.outcomes(streams.Deliveries, "") {
		got[fmt.Sprintf("%d/%d", o.Partition, o.Offset)] = o
	}
	kindOf := func(r *kgo.Record) string {
		for _, name := range names {
			if p := kinds[name].record; string(p.Value) == string(r.Value) && fmt.Sprint(p.Headers) == fmt.Sprint(r.Headers) {
				return name
			}
		}
		return ""
	}
	for _, r := range places {
		name, o := kindOf(r), got[fmt.Sprintf("%d/%d", r.Partition, r.Offset)]
		want := "accepted"
		if name != "" {
			want = kinds[name].want
		}
		if o.String() != want && (want != "accepted" || o.Outcome != "duplicate") {
			t.Errorf("%s: got %v (%s), want %s", name, o, o.Detail, want)
		}
	}
	for i := range good {
		if docs := s.attempts(fmt.Sprint("good", i)); len(docs) != 2 {
			t.Errorf("good delivery %d: got %d attempts, want 2", i, len(docs))
		}
	}
	if failed := w.Warnings(); len(failed) > 0 {
		t.Errorf("ingest stumbled: %s", failed)
	}
	s.verify()
}

func TestAPageThatIsWrongInARepeatDoesNotHideIt(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("")
	s.Publish(delivery("D", row("A", 1, "1"), "runid", "r", "page", "1"))
	s.ingested()
	s.Publish(delivery("D", row("A", 1, "1"), "runid", "r", "page", "none"))
	s.wantTally("D", "accepted 1, duplicate 1")
	s.Publish(delivery("D", row("A", 1, "2"), "runid", "r", "page", "none"))
	s.wantTally("D", "accepted 1, duplicate 1, replay_payload_mismatch 1")
	s.verify()
}

func TestAPayloadAboveEveryLimitIsSetAside(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 1})
	for _, name := range []string{streams.Deliveries} {
		s.alter(name, "max.message.bytes", "67108864")
	}
	s.begin("")
	cl, err := s.Cluster.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(64<<20), kgo.MaxBufferedBytes(128<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	s.Publish(delivery("before", row("A", 1, "1")))
	big := delivery("big", `{"sku": "A", "rev": 2, "note": "`+strings.Repeat("x", 17<<20)+`"}`)
	big.Topic = s.Cluster.Topic(big.Topic)
	if err := cl.ProduceSync(t.Context(), big).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.Publish(delivery("after", row("A", 3, "1")))
	s.wantTally("", "accepted 2, decompression_limit 1")
	s.verify()
}

func TestADeliveryOfNothingButInvalidRowsButOneIsSetAside(t *testing.T) {
	s := newScene(t, pipeline.Options{Partitions: 1})
	s.begin("")
	few := strings.Repeat("1,", 10_000)
	s.Publish(delivery("few", "["+few+row("A", 1, "1")+"]"), delivery("many", "[1,"+few+row("A", 2, "1")+"]"), delivery("after", row("A", 3, "1")))
	s.wantTally("", "accepted 2, mapping_limit 1")
	s.verify()
}

func TestCommands(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	w := s.StartIngest(ingest.Config{}, s.Archive)
	s.ApplyFeed(specOf(t, ""))
	v := func(n int, qty string) string {
		return fmt.Sprintf("mapping: {version: %d, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: %s}}\n", n, qty)
	}
	json := func(settings string) string {
		b, err := specOf(t, settings).JSON()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, test := range map[string]struct {
		command *kgo.Record
		want    string
	}{
		"without a tenant":              {command("a", json(v(2, ".qty")), streams.ExtTenant, ""), "not_a_cloudevent"},
		"of another tenant":             {command("b", json(v(2, ".qty")), streams.ExtTenant, "t2"), "schema_invalid"},
		"of an unknown type":            {command("c", json(v(2, ".qty")), "type", "offerlog.command.drop.v1"), "schema_invalid"},
		"a delivery on this topic":      {command("d", json(v(2, ".qty")), "type", streams.DeliveryType), "schema_invalid"},
		"that is no JSON":               {command("e", "feed: x"), "schema_invalid"},
		"without a payload":             {command("f", ""), "schema_invalid"},
		"with a bad feed":               {command("g", strings.Replace(json(v(2, ".qty")), ".sku", ".sku |", 1)), "schema_invalid"},
		"with NUL in an expression":     {command("h", strings.Replace(json(v(2, ".qty")), `".sku"`, `".sku // \"\u0000\""`, 1)), "schema_invalid"},
		"with NUL in a null token":      {command("i", strings.Replace(json("null_tokens: ['x']\n"+v(2, ".qty")), `"x"`, `"\u0000"`, 1)), "schema_invalid"},
		"with the routes of another":    {command("j", json("feed: thief\n")), "schema_invalid"},
		"with another connector":        {command("k", json("connector: other\n"+v(2, ".qty"))), "schema_invalid"},
		"that is no event":              {on(streams.Commands, headers("x")), "not_a_cloudevent"},
		"with a version read otherwise": {command("l", json(v(1, ".other"))), "schema_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			at := s.Publish(test.command, test.command)
			s.ingested()
			for _, o := range s.outcomes(streams.Commands, "") {
				if (o.Offset == at[0].Offset || o.Offset == at[1].Offset) && o.String() != test.want {
					t.Errorf("got %v, want %s", o, test.want)
				}
			}
		})
	}
	if failed := w.Warnings(); len(failed) > 0 {
		t.Errorf("ingest stumbled: %s", failed)
	}

	t.Run("an older one that comes again is not applied again", func(t *testing.T) {
		older, newer := command("older", json(v(2, ".qty"))), command("newer", json(v(3, ".qty")))
		s.Publish(older, newer, older)
		s.ingested()
		s.Publish(older)
		s.ingested()
		var got []string
		for _, id := range []string{"older", "newer"} {
			for _, o := range s.outcomes(streams.Commands, id) {
				got = append(got, id+" "+o.String())
			}
		}
		if want := "[older accepted older duplicate older duplicate newer accepted]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
		s.Publish(delivery("under-3", row("A", 1, "1")))
		s.ingested()
		if got := s.attempts("under-3")[0].MappingVersion; got != 3 {
			t.Errorf("mapping version: got %d, want 3", got)
		}
	})

	t.Run("a refused one can be mended under its own id", func(t *testing.T) {
		s.Publish(command("mended", json(v(1, ".qty"))), command("mended", json(v(4, ".qty"))), command("mended", json(v(5, ".qty"))))
		s.ingested()
		var got []string
		for _, o := range s.outcomes(streams.Commands, "mended") {
			got = append(got, o.String())
			if !o.Archived {
				t.Errorf("the command at %d has no evidence", o.Offset)
			}
		}
		if want := "[schema_invalid accepted replay_payload_mismatch]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
	s.verify()
}

func TestAFeedAppliedBetweenReadingAndTheTransactionIsReadUnder(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	p := &trap{}
	held := newStore(s.Archive, p)
	s.startIngest(ingest.Config{Worker: "reader"}, held, p.use)
	s.ApplyFeed(specOf(t, ""))
	s.StartIngest(ingest.Config{Worker: "other"}, s.Archive)
	s.ApplyFeed(specOf(t, "feed: f2\naccepts: {topics: [deliveries], source: /f2}\n"))
	s.shared()
	p.set(at("before archive"))
	// To every partition, so that the one with the trap reads it; the commands are with either of the two.
	for partition := range int32(3) {
		s.PublishTo(partition, delivery(fmt.Sprint("D", partition), row(fmt.Sprint("R", partition), 1, "1")))
	}
	p.wait(s)
	version := ask[int](s, "SELECT count(*) FROM audit_v1.mapping")
	if err := s.applyDirectly(specOf(t, "mapping: {version: 2, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty}}\n")); err != nil {
		t.Fatal(err)
	}
	if got := ask[int](s, "SELECT count(*) FROM audit_v1.mapping"); got != version+1 {
		t.Fatal("the feed was not applied")
	}
	p.release()
	s.wantTally("", "accepted 3")
	late := 0
	for partition := range 3 {
		if s.attempts(fmt.Sprint("D", partition))[0].MappingVersion == 2 {
			late++
		}
	}
	if late == 0 {
		t.Error("what was held in the archive is read under version 1: want that in force at the commit")
	}
}

func TestARefusedDeliveryIsAcceptedOnceItsFeedIsThere(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	s.begin("feed: first\naccepts: {topics: [deliveries], source: /first}\n")
	d := delivery("D", row("A", 1, "1"))
	s.Feed(s.rng, d)
	s.wantTally("D", "unknown_feed 2")
	s.ApplyFeed(specOf(t, ""))
	s.Feed(s.rng, d)
	s.wantTally("D", "accepted 1, duplicate 1, unknown_feed 2")

	bad := delivery("E", `{"sku": "E"}`)
	s.Feed(s.rng, bad)
	s.wantTally("E", "schema_invalid 2")
	s.Feed(s.rng, delivery("E", row("E", 1, "1")))
	s.wantTally("E", "accepted 1, duplicate 1, schema_invalid 2")
	if got := ask[string](s, "SELECT state FROM audit_v1.quarantine WHERE feed = 'acme-eu' AND row = 0"); got != "resolved" {
		t.Errorf("the entry of the delivery that was accepted after all is %s, want resolved", got)
	}
	s.verify()
}
