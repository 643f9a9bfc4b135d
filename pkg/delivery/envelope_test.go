package delivery_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
)

func TestAnEventIsWhatItsEnvelopeAndItsDataSay(t *testing.T) {
	header := func(pairs ...string) (h []kgo.RecordHeader) {
		for pair := range slices.Chunk(pairs, 2) {
			h = append(h, kgo.RecordHeader{Key: pair[0], Value: []byte(pair[1])})
		}
		return h
	}
	binary := []string{"ce_specversion", "1.0", "ce_id", "E-1", "ce_source", "/s", "ce_type", "offerlog.delivery.v1", "ce_subject", "A-1", "ce_sequence", "4",
		"ce_time", "2025-12-31T23:59:59.9999999Z", "ce_recordedtime", "2026-01-01T00:00:00.5Z"}
	for name, rec := range map[string]*kgo.Record{
		"binary with data":               {Headers: header(append(binary, "content-type", "text/csv; charset=windows-1252")...), Value: []byte("sku\nA-1\n")},
		"binary with no data":            {Headers: header(binary...)},
		"binary with zero bytes of data": {Headers: header(binary...), Value: []byte{}},
		"structured": {Headers: header("content-type", "application/cloudevents+json"),
			Value: []byte(`{"specversion":"1.0","id":"E-2","source":"/s","type":"t","page":2,"data":{"price":1.10}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			was := delivery.Decode(rec)[0]
			if was.Fault != nil {
				t.Fatal(was.Fault)
			}
			b, err := was.Event.Envelope()
			if err != nil {
				t.Fatal(err)
			}
			again, err := was.Event.Envelope()
			if err != nil || !bytes.Equal(b, again) {
				t.Errorf("a second envelope differs: %s, %s, %v", b, again, err)
			}
			got, err := delivery.FromEnvelope(b, was.Raw)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(was.Event, got) {
				t.Errorf("got %+v, want %+v", got, was.Event)
			}
		})
	}
}
