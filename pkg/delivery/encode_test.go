package delivery_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/delivery"
)

func newEvent() cloudevents.Event {
	e := cloudevents.NewEvent()
	e.SetID("E-1")
	e.SetSource("/acme-eu/export")
	e.SetType("offerlog.delivery.v1")
	return e
}

func TestEncodeWritesHeadersInOneOrder(t *testing.T) {
	e := newEvent()
	e.SetExtension("runid", "EXP-1")
	e.SetExtension("page", 2)
	e.SetTime(time.Date(2025, 3, 1, 10, 0, 0, 500, time.UTC))
	if err := e.SetData("application/json", json.RawMessage(`{"p":1.10}`)); err != nil {
		t.Fatal(err)
	}
	rec, err := delivery.Encode(e, "deliveries", []byte("acme-eu"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range rec.Headers {
		got = append(got, h.Key+": "+string(h.Value))
	}
	want := []string{
		"ce_specversion: 1.0", "ce_id: E-1", "ce_source: /acme-eu/export", "ce_type: offerlog.delivery.v1",
		"content-type: application/json", "ce_page: 2", "ce_runid: EXP-1", "ce_time: 2025-03-01T10:00:00.0000005Z",
	}
	if !slices.Equal(got, want) || rec.Topic != "deliveries" || string(rec.Key) != "acme-eu" || string(rec.Value) != `{"p":1.10}` {
		t.Errorf("got %q with %s/%s: %s", got, rec.Topic, rec.Key, rec.Value)
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	for sentence, change := range map[string]func(*cloudevents.Event){
		"no id":                      func(e *cloudevents.Event) { e.SetID("") },
		"a control character":        func(e *cloudevents.Event) { e.SetSubject("a\x00") },
		"a source too long":          func(e *cloudevents.Event) { e.SetSource("/" + strings.Repeat("x", 1024)) },
		"recordedtime that is none":  func(e *cloudevents.Event) { e.SetExtension("recordedtime", "yesterday") },
		"an extension named data":    func(e *cloudevents.Event) { e.SetExtension("data", "x") },
		"an event as payload":        func(e *cloudevents.Event) { e.SetDataContentType(structured) },
		"an older specversion":       func(e *cloudevents.Event) { e.SetSpecVersion("0.3") },
		"an extension of bad texts":  func(e *cloudevents.Event) { e.SetExtension("cursor", "\xff") },
		"a time that nothing can be": func(e *cloudevents.Event) { e.SetTime(time.Date(1066, 10, 14, 9, 0, 0, 0, time.UTC)) },
	} {
		e := newEvent()
		change(&e)
		if rec, err := delivery.Encode(e, "deliveries", nil); err == nil {
			t.Errorf("%s: got %v, want an error", sentence, rec.Headers)
		}
	}
}

// What the SDK writes in structured mode and what Encode writes are the same event.
func TestAnEventIsTheSameInEveryMode(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("aZ9 %;=\"\\/äß漢🙂é-_.:")), 1, 30, -1).
		Filter(func(s string) bool { return strings.TrimSpace(s) != "" })
	rapid.Check(t, func(t *rapid.T) {
		e := newEvent()
		e.SetID(text.Draw(t, "id"))
		e.SetSource(rapid.SampledFrom([]string{"/acme-eu/export", "urn:supplier:7", "https://acme.example/a?b=c#d"}).Draw(t, "source"))
		e.SetType(text.Draw(t, "type"))
		if rapid.Bool().Draw(t, "with subject") {
			e.SetSubject(text.Draw(t, "subject"))
		}
		if rapid.Bool().Draw(t, "with time") {
			e.SetTime(time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC())
		}
		e.SetExtension("page", rapid.Int32().Draw(t, "page"))
		e.SetExtension("final", rapid.Bool().Draw(t, "final"))
		e.SetExtension("cursor", text.Draw(t, "cursor"))
		var data []byte
		switch rapid.IntRange(0, 2).Draw(t, "data") {
		case 1:
			data, _ = json.Marshal(map[string]string{"sku": text.Draw(t, "sku")}) //nolint:errchkjson // strings only
			_ = e.SetData("application/json", json.RawMessage(data))
		case 2:
			data = rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "bytes")
			_ = e.SetData("application/octet-stream", data)
		}

		rec, err := delivery.Encode(e, "deliveries", nil)
		if err != nil {
			t.Fatal(err)
		}
		sdk, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		inBinary := delivery.Decode(rec)[0]
		inStructured := delivery.Decode(record(sdk, "content-type", structured))[0]
		inBatch := delivery.Decode(record(slices.Concat([]byte("["), sdk, []byte("]")), "content-type", batch))[0]
		for mode, it := range map[string]delivery.Item{"binary": inBinary, "structured": inStructured, "batch": inBatch} {
			if it.Fault != nil {
				t.Fatalf("%s: %v", mode, it.Fault)
			}
			got := it.Event
			if got.ID != e.ID() || got.Subject != e.Subject() || !got.Time.IsZero() && !got.Time.Time().Equal(e.Time()) {
				t.Errorf("%s: got %+v, want %v", mode, got, e)
			}
			if !maps.Equal(got.Attributes, inBinary.Event.Attributes) || !sameJSONOrBytes(got.Data, data) || got.HasData != (data != nil) {
				t.Errorf("%s: got %v with %q, want %v with %q", mode, got.Attributes, got.Data, inBinary.Event.Attributes, data)
			}
		}
		if !bytes.Equal(inBinary.Raw, data) {
			t.Errorf("got evidence %q, want %q", inBinary.Raw, data)
		}
	})
}

// What was decoded in any mode is written in binary mode and means the same.
func TestADecodedEventIsTheSameInBinaryMode(t *testing.T) {
	for sentence, rec := range map[string]*kgo.Record{
		"binary":                            binary([]byte("x"), "content-type", "text/csv; charset=iso-8859-1", "ce_page", "2"),
		"binary without data":               binary(nil),
		"binary with data of no bytes":      binary([]byte{}),
		"structured":                        envelope(`"page":2,"data":{"p":1.10}`),
		"structured with text, its charset": envelope(`"datacontenttype":"text/csv; charset=iso-8859-1","data":"K\u00e4fig"`),
		"structured, base64":                envelope(`"datacontenttype":"text/csv; charset=iso-8859-1","data_base64":"S+RmaWc="`),
		"structured without data":           envelope(""),
	} {
		want := decodeOne(t, rec)
		again, err := want.Event.Record("deliveries", []byte("k"))
		if err != nil || again.Topic != "deliveries" || string(again.Key) != "k" {
			t.Fatalf("%s: got %+v, %v", sentence, again, err)
		}
		got := decodeOne(t, again)
		delete(want.Event.Attributes, "datacontenttype") // the charset that the data has now
		delete(got.Event.Attributes, "datacontenttype")
		if got.Fault != nil || !maps.Equal(got.Event.Attributes, want.Event.Attributes) || got.Event.ContentType != want.Event.ContentType ||
			!bytes.Equal(got.Event.Data, want.Event.Data) || got.Event.HasData != want.Event.HasData {
			t.Errorf("%s: got %+v, want %+v", sentence, got, want)
		}
	}
	it := decodeOne(t, envelope(`"datacontenttype":"application/cloudevents+json","data":{}`))
	if rec, err := it.Event.Record("deliveries", nil); it.Fault != nil || err == nil {
		t.Errorf("an event in an event: got %+v, fault %v, want an error", rec, it.Fault)
	}
}

func TestFilesAreNamedByNameAndContent(t *testing.T) {
	ids := map[string]string{}
	for _, f := range [][2]string{{"a.csv", ""}, {"b.csv", ""}, {"a.csv", "1"}, {"a.csv", "2"}} {
		id := delivery.FileID(f[0], []byte(f[1]))
		if other, taken := ids[id]; taken || id != delivery.FileID(f[0], []byte(f[1])) || !strings.HasPrefix(id, f[0]+"@") {
			t.Errorf("%q: got id %s, as %q has", f, id, other)
		}
		ids[id] = f[1]
	}
}
