package mapping

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
)

var csvOffers = Spec{Order: OrderObservedAt, Format: Format{Kind: KindCSV}, Program: `{source_record: .sku, item: {mpn: .sku}, price: .price, currency: "EUR", observed_at: .at}`}

// writePayload puts a payload into a file of its own.
func writePayload(t testing.TB, payload []byte) Request {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(path, payload, 0o600); err != nil {
		t.Fatal(err)
	}
	return Request{Path: path, Length: int64(len(payload)), HasData: true, EventTime: noon}
}

func rowsOf(t testing.TB, s *Spool) (rows []offer.Row) {
	t.Helper()
	if s == nil {
		return nil
	}
	for chunk, err := range s.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, chunk...)
	}
	return rows
}

func TestASpoolHoldsWhatMapGives(t *testing.T) {
	c := newChild(t, Config{Processes: 1})
	var many strings.Builder
	many.WriteString("sku,price,at\n")
	for i := range 5000 {
		fmt.Fprintf(&many, "A-%d,%d,\n", i%4000, i%4000*(1+i/4000*(i%2))) // 500 again, and 500 that contradict
		if i%1000 == 0 {
			many.WriteString("B,-1,\n")
		}
	}
	gzip := gzipped(t, many.String())
	for name, tc := range map[string]struct {
		spec        Spec
		payload     string
		contentType string
	}{
		"rows, again, contradicting and invalid": {csvOffers, many.String(), ""},
		"the same, packed":                       {csvOffers, string(gzip), "application/gzip"},
		"a rows fingerprint":                     {with(csvOffers, func(s *Spec) { s.Fingerprint = FingerprintRows }), many.String(), ""},
		"no rows":                                {csvOffers, "sku,price\n", ""},
		"nothing but rejected rows":              {csvOffers, "sku,price\nA,-1\nB,-1\n", ""},
		"one row, rejected":                      {csvOffers, "sku,price\nA,-1\n", ""},
		"nothing but contradictions":             {csvOffers, "sku,price\nA,1\nA,2\n", ""},
		"a fault behind rows":                    {csvOffers, "sku,price\nA,1\n\"B\"x,2\n", ""},
		"a fault at once":                        {csvOffers, "sku,sku\n", ""},
		"a JSON list":                            {plain, `[{"source_record":"A","item":{"mpn":"M"},"price_breaks":[{"min_qty":1,"price":0.10}],"currency":"EUR","deleted":false},{"source_record":"B","deleted":true,"item":{"gtin":"1"}}]`, ""},
		"a JSON list that is cut off":            {plain, `[{"source_record":"A","item":{"mpn":"M"}},`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inFile := writePayload(t, []byte(tc.payload))
			inMemory := Request{Payload: []byte(tc.payload), HasData: true, EventTime: noon}
			inFile.ContentType, inMemory.ContentType = tc.contentType, tc.contentType
			want, err := mustCompile(t, tc.spec).Map(t.Context(), &inMemory)
			if err != nil {
				t.Fatal(err)
			}
			rows := want.Rows
			want.Rows = nil
			if want.Fault != nil {
				rows = nil
			}
			for how, req := range map[string]Request{"a file": inFile, "memory": inMemory} {
				dir := t.TempDir()
				res, spool, err := c.Spool(t.Context(), tc.spec, req, dir)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(res, want) {
					t.Errorf("from %s: got %+v, want %+v", how, res, want)
				}
				if (spool == nil) != (res.Fault != nil) {
					t.Fatalf("from %s: a spool: %v, though the fault is %v", how, spool != nil, res.Fault)
				}
				for range 2 {
					if got := rowsOf(t, spool); len(got)+len(rows) > 0 && !reflect.DeepEqual(got, rows) {
						t.Errorf("from %s: got %d rows, want %d", how, len(got), len(rows))
					}
				}
				if spool != nil && (spool.Rows() != len(rows) || spool.Close() != nil) {
					t.Errorf("from %s: %d rows, want %d", how, spool.Rows(), len(rows))
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("from %s: files are left: %v, %v", how, left, err)
				}
			}
		})
	}
}

func TestASpooledDeliveryTellsItsFirstRejectedRows(t *testing.T) {
	c := newChild(t, Config{Processes: 1})
	text := "sku,price\nZ,0\n" + strings.Repeat("A,1\nB,-1\nA,2\n", 2*maxRejected)
	res, spool, err := c.Spool(t.Context(), csvOffers, writePayload(t, []byte(text)), t.TempDir())
	if err != nil || spool == nil || spool.Rows() != 1 || len(res.Rejected) != maxRejected {
		t.Fatalf("got %d rejected rows, %v, %v; want %d, and one row", len(res.Rejected), res.Fault, err, maxRejected)
	}
	for i, f := range res.Rejected {
		if f.Row != i+2 || f.Line != i+3 {
			t.Fatalf("the %d. is row %d, line %d", i+1, f.Row, f.Line)
		}
	}
}

func TestTheTimeOfABigDeliveryIsThatBetweenItsRows(t *testing.T) {
	c := newChild(t, Config{Processes: 1, Timeout: 2 * time.Second})
	slow := with(csvOffers, func(s *Spec) {
		s.Program = `([range(if .price == "for ever" then 1000000000000 else 150000 end)] | length) as $n | {source_record: .sku, item: {mpn: .sku}}`
	})
	began := time.Now()
	rows := 0
	for time.Since(began) <= c.cfg.Timeout { // as many rows as this machine needs the time for
		rows += 20
		var text strings.Builder
		text.WriteString("sku,price\n")
		for i := range rows {
			fmt.Fprintf(&text, "A-%d,\n", i)
		}
		began = time.Now()
		res, spool, err := c.Spool(t.Context(), slow, writePayload(t, []byte(text.String())), t.TempDir())
		if err != nil || res.Fault != nil || spool.Rows() != rows {
			t.Fatalf("got %v, %v, though each of %d rows came in time", res.Fault, err, rows)
		}
	}
	res, spool, err := c.Spool(t.Context(), slow, writePayload(t, []byte("sku,price\nA,\nB,for ever\n")), t.TempDir())
	if err != nil || spool != nil || res.Fault == nil || res.Fault.Reason != offer.ReasonMappingLimit {
		t.Errorf("got %v, %v for a row without end, want %s", res.Fault, err, offer.ReasonMappingLimit)
	}
}

func TestSpoolEnds(t *testing.T) {
	c := NewChild(Config{Processes: 1})
	endless := with(csvOffers, func(s *Spec) { s.Program = `[limit(1; repeat(.))] | last(range(1000000000000)) | {}` })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, _, err := c.Spool(ctx, endless, writePayload(t, []byte("sku\nA\n")), t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that of the context", err)
	}
	req := writePayload(t, []byte("sku\nA\n"))
	req.Length++
	if _, _, err := c.Spool(t.Context(), csvOffers, req, t.TempDir()); err == nil || !strings.Contains(err.Error(), "7 bytes") {
		t.Errorf("got %v for a file of another length", err)
	}
	if _, _, err := c.Spool(t.Context(), Spec{}, writePayload(t, nil), t.TempDir()); err == nil {
		t.Error("got no error for a spec that does not compile")
	}
	if _, _, err := c.Spool(t.Context(), csvOffers, writePayload(t, nil), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("got no error for a folder that is not there")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Spool(t.Context(), csvOffers, writePayload(t, nil), t.TempDir()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
}
