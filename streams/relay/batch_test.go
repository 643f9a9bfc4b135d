package relay

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
)

func TestARecordIsAValidEventWhateverASupplierCallsHisRecords(t *testing.T) {
	decode := func(t rapid.TB, key offer.Key) {
		env := envelope{id: uuid.New(), kind: streams.ObservationRecorded, at: time.Now(), seq: 1, topic: streams.Observations, key: key.String(), body: []byte("{}")}
		rec, err := env.record(1)
		if err != nil {
			t.Fatal(err)
		}
		item := delivery.Decode(rec)[0]
		if item.Fault != nil {
			t.Fatalf("%q: %v", key, item.Fault)
		}
		if got, err := offer.ParseKey(item.Event.Attributes["partitionkey"]); err != nil || got != key {
			t.Errorf("partitionkey: got %q and error %v, want %q", got, err, key)
		}
		if got, err := offer.ParseKey("t/a/" + item.Event.Subject); err != nil || got.Record != key.Record {
			t.Errorf("subject: got %q and error %v, want record %q", item.Event.Subject, err, key.Record)
		}
	}
	for _, record := range []string{"\t", "A\r\nB", "a/b", "100%", "é", "\ufffe", "\ufdd0x", "\u2028", strings.Repeat("\n", 1024)} {
		decode(t, offer.Key{Tenant: "acme", Account: "eu/1", Record: record})
	}
	rapid.Check(t, func(t *rapid.T) {
		decode(t, offer.Key{Tenant: "acme", Account: rapid.StringN(1, -1, 128).Draw(t, "account"), Record: rapid.StringN(1, -1, 1024).Draw(t, "record")})
	})
}

// The client takes records of up to 1,000,012 bytes as batches and the broker batches of 1,048,588, each by default. A larger
// one would come back from either for ever.
func TestTheLargestObservationIsFarBelowWhatKafkaTakes(t *testing.T) {
	const most = 300_000
	spec := mapping.Spec{Order: mapping.OrderObservedAt,
		Program: "{source_record: .t, item: {mpn: .t, manufacturer: .t, revision: .t, packaging: .t, condition: .t, gtin: .gtin}, quantity: .n, " +
			"quantity_basis: {unit: .t, per: .n}, price: .n, currency: .currency, price_breaks: .breaks, moq: .n, order_multiple: .n, lead_time_days: .days, stock: .stock, valid_from: .at, observed_at: .at}"}
	program, err := mapping.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	// rowOf is a row with texts of so many characters, each of which takes six bytes in JSON, and so many price breaks and locations.
	rowOf := func(text, breaks, locations int) (*offer.Row, *offer.Fault) {
		list := make([]map[string]string, breaks)
		for i := range list {
			list[i] = map[string]string{"min_qty": fmt.Sprintf("9%019d.123456789012345678", i), "price": "12345678901234567890.123456789012345678"}
		}
		stock := make([]map[string]string, locations)
		for i := range stock {
			stock[i] = map[string]string{"location": fmt.Sprintf("%03d", i) + strings.Repeat("<", 125), "quantity": "12345678901234567890.123456789012345678"}
		}
		payload, err := json.Marshal(map[string]any{"t": strings.Repeat("<", text), "gtin": "4012345678901", "n": "12345678901234567890.123456789012345678", "currency": "EUR",
			"breaks": list, "stock": stock, "days": strings.Repeat("9", 38), "at": "2025-03-01T10:00:00." + strings.Repeat("1", text-len("2025-03-01T10:00:00.Z")) + "Z"})
		if err != nil {
			t.Fatal(err)
		}
		res, err := program.Map(t.Context(), &mapping.Request{Payload: payload, HasData: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Rows) == 0 {
			return nil, res.Fault
		}
		return &res.Rows[0], nil
	}
	row, fault := rowOf(1024, 1000, 100)
	if fault != nil {
		t.Fatal(fault)
	}
	if _, fault := rowOf(1025, 1000, 100); fault == nil {
		t.Error("longer texts: got a row, want it refused")
	}
	if _, fault := rowOf(1024, 1001, 100); fault == nil {
		t.Error("more price breaks: got a row, want it refused")
	}
	if _, fault := rowOf(1024, 1000, 101); fault == nil {
		t.Error("more locations: got a row, want it refused")
	}
	key := offer.Key{Tenant: strings.Repeat("t", 64), Account: strings.Repeat("<", 128), Record: row.Record}
	e := history.Event{Observation: history.New(strings.Repeat("f", 64), key, 1_000_000, offer.DeliveryID(uuid.New()), false, row)}
	e.RetrievedAt, e.RecordedAt = time.Unix(1, 1), time.Unix(1, 1)
	e.Sighting = &e.Claim
	body, err := e.Body()
	if err != nil {
		t.Fatal(err)
	}
	env := envelope{id: e.ID(), kind: streams.ObservationSighted, at: e.RecordedAt, seq: math.MaxInt64, topic: streams.Observations, key: key.String(), body: body}
	rec, err := env.record(math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	size := len(rec.Key) + len(rec.Value)
	for _, h := range rec.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if size > most {
		t.Errorf("got a record of %d bytes, want at most %d", size, most)
	}
}
