package mapping

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
)

// Payloads that are made to take a reader down end in their named reason, with bounded memory, and harm nobody beside them.
func TestHostilePayloadsEndInTheirReason(t *testing.T) {
	const mapped = `{source_record: .sku, item: {mpn: .sku}, price: .price, currency: "EUR"}`
	type part struct {
		text  string
		times int
	}
	one := func(text string) part { return part{text, 1} }
	zeros := part{string(gzipped(t, strings.Repeat("\x00", 16<<20))), (10 << 30) / (16 << 20)} // 10 MB that unpack to 10 GB
	long, digits := part{"x", 200 << 20}, strings.Repeat("9", 400)
	of := func(kind string, change ...func(*Spec)) Spec {
		s := Spec{Order: OrderObservedAt, Format: Format{Kind: kind}, Program: mapped, Limits: Limits{MaxBytes: 1 << 30}}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	inline := func(s *Spec) { s.Limits = Limits{} }
	c := newChild(t, Config{Processes: 1, Timeout: 5 * time.Minute})
	for name, tc := range map[string]struct {
		spec        Spec
		payload     []part
		contentType string
		reason      string // of the delivery, or of its first row
		rows        int    // that are left
	}{
		"a gzip of 10 MB that is 10 GB":               {of(KindCSV), []part{one(string(gzipped(t, "sku,price\nA,1\n"))), zeros}, "application/gzip", offer.ReasonDecompressionLimit, 0},
		"the same as NDJSON":                          {of(KindNDJSON), []part{one(string(gzipped(t, "{\"sku\":\"A\"}\n"))), zeros}, "application/gzip", offer.ReasonDecompressionLimit, 0},
		"the same as JSON":                            {of(KindJSON), []part{one(string(gzipped(t, "[{\"sku\":\"A\"},"))), zeros}, "application/gzip", offer.ReasonDecompressionLimit, 0},
		"the same under the usual limit":              {of(KindJSON, inline), []part{one(string(gzipped(t, "["))), zeros}, "application/gzip", offer.ReasonDecompressionLimit, 0},
		"a number of 400 digits in CSV":               {of(KindCSV), []part{one("sku,price\nA," + digits + "\nB,1\n")}, "", offer.ReasonNumberOutOfRange, 1},
		"a number of 400 digits in JSON":              {of(KindJSON), []part{one(`[{"sku":"A","price":` + digits + `},{"sku":"B"}]`)}, "", offer.ReasonNumberOutOfRange, 1},
		"an exponent of 400 digits":                   {of(KindNDJSON), []part{one(`{"sku":"A","price":1e` + digits + "}\n{\"sku\":\"B\"}")}, "", offer.ReasonNumberOutOfRange, 1},
		"a number of 200 MB":                          {of(KindJSON), []part{one("["), {"9", 200 << 20}}, "", offer.ReasonSchemaInvalid, 0},
		"a line of 200 MB under the usual limit":      {of(KindCSV, inline), []part{one("sku\n"), long, one("\nB\n")}, "", offer.ReasonDecompressionLimit, 0},
		"a line of 200 MB":                            {of(KindCSV), []part{one("sku\n"), long, one("\nB\n")}, "", offer.ReasonSchemaInvalid, 1},
		"a header of 200 MB":                          {of(KindCSV), []part{long, one("\nB\n")}, "", offer.ReasonSchemaInvalid, 0},
		"a line of ten million fields":                {of(KindCSV), []part{one("sku\n"), {"a,", 10 << 20}, one("\nB\n")}, "", offer.ReasonSchemaInvalid, 1},
		"a quote that is never closed, behind 200 MB": {of(KindCSV), []part{one("sku\n\""), long}, "", offer.ReasonSchemaInvalid, 0},
		"a line of 200 MB of NDJSON":                  {of(KindNDJSON), []part{one("\""), long, one("\"\n{\"sku\":\"B\"}\n")}, "", offer.ReasonSchemaInvalid, 1},
		"a text of 200 MB in JSON":                    {of(KindJSON), []part{one(`[{"sku":"`), long, one(`"}]`)}, "", offer.ReasonSchemaInvalid, 0},
		"200 MB of blanks in JSON":                    {of(KindJSON), []part{{" ", 200 << 20}}, "", offer.ReasonSchemaInvalid, 0},
		"lists in lists, a million deep":              {of(KindJSON), []part{{"[", 1_000_000}}, "", offer.ReasonSchemaInvalid, 0},
		"objects in objects, on a line":               {of(KindNDJSON), []part{{`{"a":`, 1_000_000}, one("\n{\"sku\":\"B\"}")}, "", offer.ReasonSchemaInvalid, 1},
		"a mapping that doubles a text":               {of(KindCSV, func(s *Spec) { s.Program = `reduce range(40) as $i (.sku; . + .)` }), []part{one("sku\nAAAA\n")}, "", offer.ReasonMappingLimit, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "payload")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			w, length := bufio.NewWriterSize(f, 1<<20), 0
			for _, p := range tc.payload {
				for range p.times {
					n, _ := w.WriteString(p.text) // Flush has its error
					length += n
				}
			}
			if err := errors.Join(w.Flush(), f.Close()); err != nil {
				t.Fatal(err)
			}
			r := Request{Path: path, Length: int64(length), HasData: true, ContentType: tc.contentType, EventTime: noon}
			res, spool, err := c.Spool(t.Context(), tc.spec, r, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			fault := res.Fault
			if fault == nil && len(res.Rejected) > 0 {
				fault = &res.Rejected[0]
			}
			if fault == nil || fault.Reason != tc.reason || len(fault.Message) > 400 {
				t.Errorf("got %v, want %s", fault, tc.reason)
			}
			if rows := rowsOf(t, spool); len(rows) != tc.rows {
				t.Errorf("got %d rows, want %d", len(rows), tc.rows)
			}
			if spool != nil && spool.Close() != nil {
				t.Error("the spool does not close")
			}
		})
	}
	if canLimitMemory() != nil {
		return // the memory of a race build says nothing
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil || usage.Maxrss > 512<<10 {
		t.Errorf("a mapper process had %d MiB of memory, %v; want at most 512", usage.Maxrss>>10, err)
	}
	specs, reqs := deliveries(of(KindNDJSON), 3, fmt.Sprintf("{\"sku\":\"A-1\",\"price\":%s}", digits), 1)
	results, err := c.Map(t.Context(), specs, reqs)
	if err != nil || len(results[0].Rows) != 1 || len(results[2].Rows) != 1 || results[1].Fault == nil {
		t.Errorf("the neighbours: got %+v, %v", results, err)
	}
}
