package delivery_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/offer"
)

const (
	structured = "application/cloudevents+json"
	batch      = "application/cloudevents-batch+json"
)

// record makes a record of alternating header names and values.
func record(value []byte, headers ...string) *kgo.Record {
	rec := &kgo.Record{Topic: "deliveries", Value: value}
	for h := range slices.Chunk(headers, 2) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return rec
}

// binary makes a binary record with the required attributes and further headers.
func binary(value []byte, headers ...string) *kgo.Record {
	return record(value, append([]string{
		"ce_specversion", "1.0", "ce_id", "E-1", "ce_source", "/acme-eu/export", "ce_type", "offerlog.delivery.v1",
	}, headers...)...)
}

// envelope makes a structured record with the required attributes and further members, as JSON text.
func envelope(members string) *kgo.Record {
	const fixed = `"specversion":"1.0","id":"E-1","source":"/acme-eu/export","type":"offerlog.delivery.v1"`
	if members != "" {
		members = "," + members
	}
	return record([]byte("{"+fixed+members+"}"), "content-type", structured)
}

func decodeOne(t *testing.T, rec *kgo.Record) delivery.Item {
	t.Helper()
	items := delivery.Decode(rec)
	if len(items) != 1 {
		t.Fatalf("got %d items, want 1", len(items))
	}
	return items[0]
}

// One event in each content mode, with every kind of attribute that CloudEvents 1.0 knows.
func TestM_01_deliveries_are_CloudEvents_in_three_modes(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/conformance/*.json")
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, path := range fixtures {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			var f struct {
				Attributes map[string]string
				Data       *string // payload text; absent: no data
				DataBase64 []byte  `json:"data_base64"`
				Binary     struct {
					Headers [][2]string
					Value   *string
					Base64  []byte `json:"value_base64"`
				}
				Structured json.RawMessage
			}
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &f)
			}
			if err != nil {
				t.Fatal(err)
			}
			data, value := f.DataBase64, f.Binary.Base64
			if f.Data != nil {
				data = []byte(*f.Data)
			}
			if f.Binary.Value != nil {
				value = []byte(*f.Binary.Value)
			}
			inBinary := record(value)
			for _, h := range f.Binary.Headers {
				inBinary.Headers = append(inBinary.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
			}
			for mode, items := range map[string][]delivery.Item{
				"binary":     delivery.Decode(inBinary),
				"structured": delivery.Decode(record(f.Structured, "content-type", structured)),
				"batch":      delivery.Decode(record(fmt.Appendf(nil, "[{}, %s]", f.Structured), "content-type", batch))[1:],
			} {
				if len(items) != 1 || items[0].Fault != nil {
					t.Errorf("%s: got %+v, want one event", mode, items)
					continue
				}
				e := items[0].Event
				if want := map[bool]int{mode == "batch": 1}[true]; e.Item != want {
					t.Errorf("%s: got item %d, want %d", mode, e.Item, want)
				}
				if !maps.Equal(e.Attributes, f.Attributes) {
					t.Errorf("%s: got attributes %v, want %v", mode, e.Attributes, f.Attributes)
				}
				if a := f.Attributes; e.ID != a["id"] || e.Source != a["source"] || e.Type != a["type"] || e.Subject != a["subject"] {
					t.Errorf("%s: got %+v, want what the attributes say", mode, e)
				}
				if !sameJSONOrBytes(e.Data, data) || e.HasData != (data != nil) || !bytes.Equal(items[0].Raw, e.Data) {
					t.Errorf("%s: got data %q (%v), evidence %q, want %q", mode, e.Data, e.HasData, items[0].Raw, data)
				}
			}
		})
	}
}

// sameJSONOrBytes lets JSON differ in blanks, which fixtures have for their readers.
func sameJSONOrBytes(got, want []byte) bool {
	var a, b bytes.Buffer
	if json.Compact(&a, got) == nil && json.Compact(&b, want) == nil {
		return bytes.Equal(a.Bytes(), b.Bytes())
	}
	return bytes.Equal(got, want)
}

// A caseRecord is a line of a case's events.jsonl.
type caseRecord struct {
	Topic       string
	Key         *string
	Headers     json.RawMessage
	Value       *string
	ValueBase64 []byte `json:"value_base64"`
}

func (c caseRecord) record(t *testing.T) *kgo.Record {
	t.Helper()
	rec := &kgo.Record{Topic: c.Topic, Value: c.ValueBase64}
	if c.Value != nil {
		rec.Value = []byte(*c.Value)
	}
	var list [][2]string
	if json.Unmarshal(c.Headers, &list) != nil {
		byName := map[string]string{}
		if err := json.Unmarshal(c.Headers, &byName); len(c.Headers) > 0 && err != nil {
			t.Fatalf("headers %s: %v", c.Headers, err)
		}
		for name, value := range byName {
			list = append(list, [2]string{name, value})
		}
	}
	for _, h := range list {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return rec
}

// caseRecords reads the records of a case, in topic order.
func caseRecords(t *testing.T, dir string) (records []*kgo.Record) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var c caseRecord
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		records = append(records, c.record(t))
	}
	return records
}

// Every case with records says which of them are no CloudEvents; all others must decode.
func TestCases(t *testing.T) {
	type expectation struct {
		Event, Item    int
		Items          *int
		Reason, Detail string
	}
	paths, err := filepath.Glob("../../testdata/cases/*/expected.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		dir := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(dir, "events.jsonl")); err != nil {
			continue // a case about what comes later than records
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var expected struct{ Deliveries []expectation }
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &expected)
			}
			if err != nil {
				t.Fatal(err)
			}
			records := caseRecords(t, dir)
			decoded := make([][]delivery.Item, len(records))
			refused := map[[2]int]*offer.Fault{}
			for n, rec := range records {
				decoded[n] = delivery.Decode(rec)
				for _, it := range decoded[n] {
					if it.Fault != nil {
						refused[[2]int{n, it.Event.Item}] = it.Fault
					}
				}
			}
			for _, want := range expected.Deliveries {
				if want.Items != nil && len(decoded[want.Event]) != *want.Items {
					t.Errorf("record %d: got %d items, want %d", want.Event, len(decoded[want.Event]), *want.Items)
				}
				at := [2]int{want.Event, want.Item}
				if strings.HasPrefix(want.Detail, "ce_") {
					f := refused[at]
					if f == nil || f.Reason != want.Reason || f.Detail != want.Detail {
						t.Errorf("record %d item %d: got %v, want %s (%s)", want.Event, want.Item, f, want.Reason, want.Detail)
					}
					delete(refused, at)
				}
			}
			for at, f := range refused {
				t.Errorf("record %d item %d: got %v, want an event", at[0], at[1], f)
			}
		})
	}
}

func TestWhatCasesSayOfTheEventItself(t *testing.T) {
	read := func(name string) []delivery.Item {
		var all []delivery.Item
		for _, rec := range caseRecords(t, filepath.Join("../../testdata/cases", name)) {
			all = append(all, delivery.Decode(rec)...)
		}
		return all
	}
	if e := read("ce-header-utf8-percent")[0].Event; e.ID != "100%-Größe" || e.Subject != "a%20b" {
		t.Errorf("percent signs: got id %q, subject %q", e.ID, e.Subject)
	}
	if e := read("ce-extension-numeric-string")[0].Event; e.Attributes["sequence"] != "4002909746823859279" {
		t.Errorf("digits of a text: got %q", e.Attributes["sequence"])
	}
	times := read("ce-time-fraction-year-end")
	for i, want := range []string{"2025-12-31T23:59:59.9999999Z", "2025-12-31T23:59:59.5Z"} {
		if got := times[i].Event.Time.String(); got != want {
			t.Errorf("time: got %s, want %s", got, want)
		}
	}
	payload, err := os.ReadFile("../../testdata/cases/ce-data-base64-charset/payload.csv")
	if err != nil {
		t.Fatal(err)
	}
	if e := read("ce-data-base64-charset")[0].Event; !bytes.Equal(e.Data, payload) || e.ContentType != "text/csv; charset=ISO-8859-1" {
		t.Errorf("base64: got %q as %q, want %q", e.Data, e.ContentType, payload)
	}
	for i, it := range read("ce-batch-prefix-trap") {
		if want := fmt.Sprintf("E-%d", i+1); it.Event.ID != want || it.Event.Item != i {
			t.Errorf("batch: got %s as item %d, want %s as %d", it.Event.ID, it.Event.Item, want, i)
		}
	}
	if it := read("null-value-no-headers")[1]; it.Event.HasData || it.Raw != nil {
		t.Errorf("null value: got data %q, evidence %q, want none", it.Event.Data, it.Raw)
	}
}

func TestDecodeRefuses(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for sentence, c := range map[string]struct {
		rec    *kgo.Record
		detail string
	}{
		"a header twice":                    {binary(nil, "ce_id", "E-2"), "ce_duplicate_attribute"},
		"a header twice with one value":     {binary(nil, "ce_id", "E-1"), "ce_duplicate_attribute"},
		"content-type twice":                {binary(nil, "content-type", "application/json", "content-type", structured), "ce_duplicate_attribute"},
		"datacontenttype in two headers":    {binary(nil, "content-type", "application/json", "ce_datacontenttype", "text/csv"), "ce_duplicate_attribute"},
		"a capital in a header's name":      {binary(nil, "ce_Subject", "x"), "ce_invalid_attribute"},
		"a header with an empty name":       {binary(nil, "ce_", "x"), "ce_invalid_attribute"},
		"an attribute named data":           {binary(nil, "ce_data", "x"), "ce_invalid_attribute"},
		"bytes that are not UTF-8":          {binary(nil, "ce_subject", "\xff"), "ce_invalid_attribute"},
		"a control character":               {binary(nil, "ce_subject", "a\x00b"), "ce_invalid_attribute"},
		"a C1 control character":            {binary(nil, "ce_subject", "a\u0085b"), "ce_invalid_attribute"},
		"a noncharacter":                    {binary(nil, "ce_subject", "\ufffe"), "ce_invalid_attribute"},
		"an empty subject":                  {binary(nil, "ce_subject", ""), "ce_invalid_attribute"},
		"an empty time":                     {binary(nil, "ce_time", ""), "ce_invalid_attribute"},
		"a recordedtime without a zone":     {binary(nil, "ce_recordedtime", "2025-03-01T10:00:00"), "ce_invalid_attribute"},
		"a content type that is none":       {binary(nil, "content-type", "a b"), "ce_invalid_attribute"},
		"a relative dataschema":             {binary(nil, "ce_dataschema", "/schemas/1"), "ce_invalid_attribute"},
		"an attribute beyond 64 KiB":        {binary(nil, "ce_subject", strings.Repeat("x", 64<<10+1)), "ce_invalid_attribute"},
		"an id beyond 1024 bytes":           {record(nil, "ce_specversion", "1.0", "ce_id", long, "ce_source", "/s", "ce_type", "t"), "ce_invalid_attribute"},
		"a source that is no URI reference": {record(nil, "ce_specversion", "1.0", "ce_id", "1", "ce_source", "%zz", "ce_type", "t"), "ce_invalid_attribute"},
		"a blank id":                        {record(nil, "ce_specversion", "1.0", "ce_id", " ", "ce_source", "/s", "ce_type", "t"), "ce_missing_attribute"},
		"no type":                           {record(nil, "ce_specversion", "1.0", "ce_id", "1", "ce_source", "/s"), "ce_missing_attribute"},
		"another specversion":               {record(nil, "ce_specversion", "0.3", "ce_id", "1", "ce_source", "/s", "ce_type", "t"), "ce_missing_attribute"},
		"no headers":                        {record([]byte("x")), "ce_missing_attribute"},

		"a member twice":                   {envelope(`"id":"E-2"`), "ce_duplicate_attribute"},
		"a member twice, spelled apart":    {envelope(`"i\u0064":"E-1"`), "ce_duplicate_attribute"},
		"data twice":                       {envelope(`"data":1,"data":1`), "ce_duplicate_attribute"},
		"a member twice, once null":        {envelope(`"subject":null,"subject":"x"`), "ce_duplicate_attribute"},
		"data and data_base64":             {envelope(`"data":1,"data_base64":"MQ=="`), "ce_ambiguous_data"},
		"an integer beyond 32 bits":        {envelope(`"page":2147483648`), "ce_invalid_attribute"},
		"an integer below 32 bits":         {envelope(`"page":-2147483649`), "ce_invalid_attribute"},
		"a fraction":                       {envelope(`"page":1.5`), "ce_invalid_attribute"},
		"an integer with a fraction":       {envelope(`"page":1.0`), "ce_invalid_attribute"},
		"an integer with an exponent":      {envelope(`"page":1e2`), "ce_invalid_attribute"},
		"a number in a text attribute":     {envelope(`"subject":5`), "ce_invalid_attribute"},
		"a number in a text extension":     {envelope(`"sequence":5`), "ce_invalid_attribute"},
		"a boolean in a text attribute":    {envelope(`"subject":true`), "ce_invalid_attribute"},
		"an object as an attribute":        {envelope(`"page":{}`), "ce_invalid_attribute"},
		"a list as an attribute":           {envelope(`"page":[1]`), "ce_invalid_attribute"},
		"an unpaired surrogate":            {envelope(`"subject":"\ud800"`), "ce_invalid_attribute"},
		"an unpaired surrogate in a name":  {envelope(`"\ud800":"x"`), "ce_invalid_attribute"},
		"an underscore in a member's name": {envelope(`"my_ext":"x"`), "ce_invalid_attribute"},
		"an escaped control character":     {envelope(`"subject":"\u0000"`), "ce_invalid_attribute"},
		"base64 that is none":              {envelope(`"data_base64":"!"`), "ce_invalid_attribute"},
		"base64 that is a number":          {envelope(`"data_base64":1`), "ce_invalid_attribute"},
		"a required attribute that's null": {record([]byte(`{"specversion":"1.0","id":null,"source":"/s","type":"t"}`), "content-type", structured), "ce_missing_attribute"},
		"an empty object":                  {record([]byte(`{}`), "content-type", structured), "ce_missing_attribute"},

		"bytes after the event":   {record([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t"} {}`), "content-type", structured), ""},
		"an event that is cut":    {record([]byte(`{"specversion":"1.0","id":"1","sour`), "content-type", structured), ""},
		"a list for an event":     {record([]byte(`[]`), "content-type", structured), ""},
		"a text for an event":     {record([]byte(`nonsense`), "content-type", structured), ""},
		"a null value":            {record(nil, "content-type", structured), ""},
		"an event for a batch":    {record([]byte(`{}`), "content-type", batch), ""},
		"a batch that is cut":     {record([]byte(`[{"specversion":"1.0","id":"1","source":"/s","type":"t"},`), "content-type", batch), ""},
		"bytes after the batch":   {record([]byte(`[] []`), "content-type", batch), ""},
		"a batch's null value":    {record(nil, "content-type", batch), ""},
		"a batch of broken JSON":  {record([]byte(`[{"id":}]`), "content-type", batch), ""},
		"a batch with two commas": {record([]byte(`[{},,{}]`), "content-type", batch), ""},
	} {
		it := decodeOne(t, c.rec)
		if it.Fault == nil || it.Fault.Reason != offer.ReasonNotACloudEvent || it.Fault.Detail != c.detail {
			t.Errorf("%s: got %v, want not_a_cloudevent (%s)", sentence, it.Fault, c.detail)
		}
		if !bytes.Equal(it.Raw, c.rec.Value) {
			t.Errorf("%s: got evidence %q, want the value %q", sentence, it.Raw, c.rec.Value)
		}
	}
}

func TestDecodeTakes(t *testing.T) {
	for sentence, c := range map[string]struct {
		rec         *kgo.Record
		data        string // "null": none
		contentType string
	}{
		"a null value":                     {binary(nil), "null", ""},
		"zero bytes":                       {binary([]byte{}), "", ""},
		"a null header, which is unset":    {unset(binary(nil), "ce_subject"), "null", ""},
		"an id of 1024 bytes":              {record([]byte("x"), "ce_specversion", "1.0", "ce_id", strings.Repeat("x", 1024), "ce_source", "/s", "ce_type", "t"), "x", ""},
		"other headers":                    {binary([]byte("x"), "traceparent", "\xff", "CE_ID", "E-9", "Content-Type", batch), "x", ""},
		"any media type as payload's":      {binary([]byte("x"), "content-type", "application/xml; charset=ISO-8859-1"), "x", "application/xml; charset=ISO-8859-1"},
		"JSON data as it was sent":         {envelope(`"data": {"p": 1.10, "p": 1e2 }`), `{"p": 1.10, "p": 1e2 }`, "application/json; charset=utf-8"},
		"a JSON string that stays one":     {envelope(`"data":"a\u0062"`), `"a\u0062"`, "application/json; charset=utf-8"},
		"JSON of a vendor":                 {envelope(`"datacontenttype":"application/vnd.acme+json","data":"x"`), `"x"`, "application/vnd.acme+json; charset=utf-8"},
		"text of another format":           {envelope(`"datacontenttype":"text/csv; charset=ISO-8859-1","data":"a;\u00e4\n"`), "a;ä\n", "text/csv; charset=utf-8"},
		"an object under another format":   {envelope(`"datacontenttype":"text/csv","data":{}`), "{}", "text/csv; charset=utf-8"},
		"data_base64":                      {envelope(`"datacontenttype":"text/csv; charset=ISO-8859-1","data_base64":"5A=="`), "\xe4", "text/csv; charset=ISO-8859-1"},
		"empty data_base64":                {envelope(`"data_base64":""`), "", ""},
		"data that is null":                {envelope(`"data":null`), "null", ""},
		"a null beside data_base64":        {envelope(`"data":null,"data_base64":"MQ=="`), "1", ""},
		"an extension that is null":        {envelope(`"subject":null`), "null", ""},
		"integers, booleans, empty texts":  {envelope(`"page":-2147483648,"pages":2147483647,"last":true,"note":""`), "null", ""},
		"a name twice inside data":         {envelope(`"data":{"a":1,"a":2}`), `{"a":1,"a":2}`, "application/json; charset=utf-8"},
		"a byte order mark":                {record(append([]byte("\ufeff"), envelope("").Value...), "content-type", structured), "null", ""},
		"white space around the event":     {record(slices.Concat([]byte(" \n"), envelope("").Value, []byte("\r\n")), "content-type", structured), "null", ""},
		"parameters and case of the mode":  {record(envelope("").Value, "content-type", " Application/CloudEvents+JSON ;charset=utf-8"), "null", ""},
		"a batch's only event":             {record(slices.Concat([]byte("["), envelope("").Value, []byte("]")), "content-type", batch), "null", ""},
		"broken text inside data, as sent": {envelope("\"data\":\"\xff\\ud800\""), "\"\xff\\ud800\"", "application/json; charset=utf-8"},
	} {
		it := decodeOne(t, c.rec)
		if it.Fault != nil {
			t.Errorf("%s: got %v", sentence, it.Fault)
			continue
		}
		if e := it.Event; e.HasData != (c.data != "null") || e.HasData && string(e.Data) != c.data || e.ContentType != c.contentType {
			t.Errorf("%s: got %q (%v) as %q, want %q as %q", sentence, e.Data, e.HasData, e.ContentType, c.data, c.contentType)
		}
	}
}

func unset(rec *kgo.Record, header string) *kgo.Record {
	rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: header})
	return rec
}

func TestDecodeRefusesOtherFaults(t *testing.T) {
	for contentType, want := range map[string]string{
		"application/cloudevents":            "unsupported_format (ce_unsupported_format)",
		"application/cloudevents+avro":       "unsupported_format (ce_unsupported_format)",
		"Application/CloudEvents-Batch+Avro": "unsupported_format (ce_unsupported_format)",
	} {
		it := decodeOne(t, binary([]byte("x"), "content-type", contentType))
		if it.Fault == nil || !strings.HasPrefix(it.Fault.Error(), want) || string(it.Raw) != "x" {
			t.Errorf("%s: got %v with evidence %q, want %s", contentType, it.Fault, it.Raw, want)
		}
	}
	it := decodeOne(t, envelope(`"datacontenttype":"text/csv","data":"\ud800"`))
	if it.Fault == nil || it.Fault.Reason != offer.ReasonInvalidText || it.Fault.Detail != "text_invalid_unicode" {
		t.Errorf("text that no bytes stand for: got %v, want invalid_text", it.Fault)
	}
}

// Whoever looks into quarantine wants to know which event it was.
func TestARefusedEventKeepsWhatCouldBeRead(t *testing.T) {
	for sentence, rec := range map[string]*kgo.Record{
		"binary":                     binary([]byte("x"), "ce_Bad", "1", "ce_subject", "a\x00", "ce_page", "2"),
		"content-type twice":         binary([]byte("x"), "ce_page", "2", "content-type", structured, "content-type", structured),
		"structured":                 envelope(`"Bad":1,"subject":"a\u0000","page":2`),
		"structured and cut":         record([]byte(`{"specversion":"1.0","type":"offerlog.delivery.v1","id":"E-1","source":"/acme-eu/export","page":2,"da`), "content-type", structured),
		"structured, bad data after": envelope(`"page":2,"data":1,"data_base64":"MQ=="`),
	} {
		it := decodeOne(t, rec)
		if it.Fault == nil || it.Event.ID != "E-1" || it.Event.Source != "/acme-eu/export" || it.Event.Attributes["page"] != "2" {
			t.Errorf("%s: got %+v, want a fault and id, source, page", sentence, it)
		}
		if _, ok := it.Event.Attributes["subject"]; ok {
			t.Errorf("%s: got an attribute that no table can hold", sentence)
		}
		if it.Event.HasData && it.Fault != nil && sentence == "structured, bad data after" {
			t.Errorf("%s: got data, want none chosen", sentence)
		}
	}
}

func TestEachEventOfABatchStandsAlone(t *testing.T) {
	good := string(envelope(`"data":1`).Value)
	items := delivery.Decode(record([]byte("[ "+good+" , 5, {\"id\":\"E-3\"},\n"+good+"]"), "content-type", batch))
	if len(items) != 4 {
		t.Fatalf("got %d items, want 4", len(items))
	}
	for i, want := range []struct {
		refused bool
		raw     string
	}{{false, "1"}, {true, "5"}, {true, `{"id":"E-3"}`}, {false, "1"}} {
		it := items[i]
		if (it.Fault != nil) != want.refused || string(it.Raw) != want.raw || it.Event.Item != i {
			t.Errorf("item %d: got %v, %q as item %d, want refused %v, %q", i, it.Fault, it.Raw, it.Event.Item, want.refused, want.raw)
		}
	}
	if items[2].Event.ID != "E-3" {
		t.Errorf("got id %q of the refused event, want E-3", items[2].Event.ID)
	}
	for n, want := range map[int]int{delivery.MaxBatch: delivery.MaxBatch, delivery.MaxBatch + 1: 1} {
		items := delivery.Decode(record([]byte("["+strings.Repeat("{},", n-1)+"{}]"), "content-type", batch))
		if len(items) != want || items[0].Fault == nil || want == 1 && !strings.Contains(items[0].Fault.Message, "more than 10000 events") {
			t.Errorf("a batch of %d: got %d items, the first %v, want %d", n, len(items), items[0].Fault, want)
		}
	}
	if items := delivery.Decode(record([]byte(" [ ] "), "content-type", batch)); len(items) != 0 {
		t.Errorf("an empty batch: got %d items", len(items))
	}
}

func FuzzDecode(f *testing.F) {
	for _, rec := range []*kgo.Record{
		envelope(`"data":{"a":"\ud800"},"page":1`), envelope(`"data_base64":"MQ==","datacontenttype":"text/csv"`),
		record([]byte("[{},"+string(envelope("").Value)+"]"), "content-type", batch),
		binary([]byte("x"), "content-type", "text/csv"), record([]byte(`{"id":`), "content-type", structured),
	} {
		var contentType []byte
		for _, h := range rec.Headers {
			if h.Key == "content-type" {
				contentType = h.Value
			}
		}
		f.Add(string(contentType), rec.Value, "ce_subject", []byte("a"))
	}
	f.Fuzz(func(t *testing.T, contentType string, value []byte, name string, text []byte) {
		rec := binary(value, "content-type", contentType, name, string(text))
		for i, it := range delivery.Decode(rec) {
			checkItem(t, rec, i, it)
		}
	})
}

// checkItem holds an item against what Decode promises of all of them.
func checkItem(t *testing.T, rec *kgo.Record, i int, it delivery.Item) {
	t.Helper()
	e := it.Event
	for name, text := range e.Attributes {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Errorf("attribute %q: %q cannot be stored", name, text)
		}
	}
	if it.Fault != nil {
		if !utf8.ValidString(it.Fault.Error()) || it.Fault.Reason == "" || !bytes.Contains(rec.Value, it.Raw) {
			t.Errorf("got fault %q with evidence %q", it.Fault, it.Raw)
		}
		return
	}
	if e.Item != i || e.ID == "" || e.Source == "" || e.Type == "" || e.Attributes["specversion"] != "1.0" || !bytes.Equal(it.Raw, e.Data) {
		t.Errorf("got an incomplete event %+v", it)
	}
	// The same event in binary mode says the same.
	again := record(e.Data)
	for name, text := range e.Attributes {
		key := "ce_" + name
		if name == "datacontenttype" {
			key = "content-type"
		}
		again.Headers = append(again.Headers, kgo.RecordHeader{Key: key, Value: []byte(text)})
	}
	if strings.Contains(strings.ToLower(e.Attributes["datacontenttype"]), "cloudevents") {
		return // a payload that is an event: in binary mode the record would be one
	}
	if b := delivery.Decode(again)[0]; b.Fault != nil || !maps.Equal(b.Event.Attributes, e.Attributes) || b.Event.Time != e.Time ||
		base64.StdEncoding.EncodeToString(b.Event.Data) != base64.StdEncoding.EncodeToString(e.Data) {
		t.Errorf("got %+v in binary mode, want %+v", b, it)
	}
}
