package mapping

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/offerlog/offerlog/pkg/offer"
	"pgregory.net/rapid"
)

// readAll is what a reader yields: each row as JSON with its place, or the fault in its place; at the end the document's.
func readAll(t testing.TB, rows reader) []string {
	t.Helper()
	var got []string
	for {
		in, err := rows.next()
		if err == io.EOF { //nolint:errorlint // a reader's own
			return got
		}
		at, fault := fmt.Sprintf("%d:%d ", in.line, in.column), in.fault
		if err != nil {
			if fault = faultOf(err); fault == nil {
				t.Fatal(err)
			}
			at = ""
		}
		if fault != nil {
			at += fault.Detail
			if fault.Line > 0 {
				at += fmt.Sprintf(" at %d:%d", fault.Line, fault.Column)
			}
			if got = append(got, at); err != nil {
				return got
			}
			continue
		}
		b, err := json.Marshal(in.value)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, at+string(b))
	}
}

func csvFormat(change ...func(*Format)) *Format {
	f := Format{Kind: KindCSV}
	for _, c := range change {
		c(&f)
	}
	f = Spec{Format: f}.WithDefaults().Format
	return &f
}

func TestCSV(t *testing.T) {
	delimiter := func(d string) func(*Format) { return func(f *Format) { f.Delimiter = d } }
	required := func(names ...string) func(*Format) { return func(f *Format) { f.Required = names } }
	noQuote := func(f *Format) { f.Quote = NoQuote }
	long := strings.Repeat("x", maxFieldBytes)
	for name, tc := range map[string]struct {
		format *Format
		text   string
		want   []string
	}{
		"rows end with LF":                         {csvFormat(), "a,b\n1,2\n3,4\n", []string{`2:1 {"a":"1","b":"2"}`, `3:1 {"a":"3","b":"4"}`}},
		"rows end with CRLF":                       {csvFormat(), "a,b\r\n1,2\r\n3,4\r\n", []string{`2:1 {"a":"1","b":"2"}`, `3:1 {"a":"3","b":"4"}`}},
		"the last row ends with the text":          {csvFormat(), "a,b\n1,2", []string{`2:1 {"a":"1","b":"2"}`}},
		"the last row ends with CR":                {csvFormat(), "a,b\n1,2\r", []string{`2:1 {"a":"1","b":"2"}`}},
		"the last field is empty":                  {csvFormat(), "a,b\n1,", []string{`2:1 {"a":"1","b":""}`}},
		"a CR alone is text":                       {csvFormat(), "a,b\n1\r2,3\n", []string{`2:1 {"a":"1\r2","b":"3"}`}},
		"blank lines are none":                     {csvFormat(), "\n \na,b\n\n1,2\n\r\n  \t\n3,4\n\n", []string{`5:1 {"a":"1","b":"2"}`, `8:1 {"a":"3","b":"4"}`}},
		"a line of delimiters is a row":            {csvFormat(), "a,b\n,\n", []string{`2:1 {"a":"","b":""}`}},
		"a quoted empty field is a row":            {csvFormat(), "a\n\"\"\n\nx\n", []string{`2:1 {"a":""}`, `4:1 {"a":"x"}`}},
		"an empty text has no header":              {csvFormat(), "", []string{"csv_header_missing at 1:1"}},
		"an empty text lacks a column":             {csvFormat(required("sku")), "\n\n", []string{"csv_header_missing at 3:1"}},
		"a header alone has no rows":               {csvFormat(), "a,b\n", nil},
		"names are trimmed":                        {csvFormat(required("a", "b")), " a ,\u200bb\t\n 1 , 2\n", []string{`2:1 {"a":" 1 ","b":" 2"}`}},
		"names keep their letter case":             {csvFormat(), "price,Price\n1,2\n", []string{`2:1 {"Price":"2","price":"1"}`}},
		"names differ by more than blanks":         {csvFormat(), "a, a\n1,2\n", []string{"csv_header_duplicate at 1:1"}},
		"names in quotes":                          {csvFormat(), "\"a,b\",\"c\nd\"\n1,2\n", []string{`3:1 {"a,b":"1","c\nd":"2"}`}},
		"a required column is missing":             {csvFormat(required("a", "SKU")), "a,sku\n1,2\n", []string{"csv_header_missing at 1:1"}},
		"columns without a name at the end":        {csvFormat(), "a,b, ,\n1,2\n1,2,\n1,2,,\n1,2, ,\n1,2,,,,\n", []string{`2:1 {"a":"1","b":"2"}`, `3:1 {"a":"1","b":"2"}`, `4:1 {"a":"1","b":"2"}`, `5:1 {"a":"1","b":"2"}`, `6:1 {"a":"1","b":"2"}`}},
		"a column without a name between others":   {csvFormat(), "a,,b\n1,2,3\n", []string{`2:1 {"":"2","a":"1","b":"3"}`}},
		"two columns without a name":               {csvFormat(), "a,, ,b\n1,2,3,4\n", []string{"csv_header_duplicate at 1:1"}},
		"something behind the columns":             {csvFormat(), "a,b\n1,2,x\n1,2,,\"y\"\n3,4\n", []string{"2:1 csv_row_width at 2:5", "3:1 csv_row_width at 3:6", `4:1 {"a":"3","b":"4"}`}},
		"too few fields":                           {csvFormat(), "a,b,c\n1,2\n3\n4,5,6\n", []string{"2:1 csv_row_width", "3:1 csv_row_width", `4:1 {"a":"4","b":"5","c":"6"}`}},
		"a line end in quotes":                     {csvFormat(), "a,b\n1,\"x\r\ny\n\"\n2,z\n", []string{`2:1 {"a":"1","b":"x\r\ny\n"}`, `5:1 {"a":"2","b":"z"}`}},
		"delimiters and quotes in quotes":          {csvFormat(), "a,b\n\"1,\"\"2\"\"\",\"\"\n", []string{`2:1 {"a":"1,\"2\"","b":""}`}},
		"quotes until the end":                     {csvFormat(), "a,b\n\"1\",\"2\"", []string{`2:1 {"a":"1","b":"2"}`}},
		"a quote within a field":                   {csvFormat(), "a,b\n1,ü2\"\n3,4\n", []string{"csv_malformed at 2:5"}},
		"a quote behind a blank":                   {csvFormat(), "a,b\n1, \"2\"\n", []string{"csv_malformed at 2:4"}},
		"something behind a closing quote":         {csvFormat(), "a,b\n1,2\n\"3\"x,4\n", []string{`2:1 {"a":"1","b":"2"}`, "csv_malformed at 3:4"}},
		"a quote that is never closed":             {csvFormat(), "a,b\n1,\"2\n3,4\n", []string{"csv_quote_unclosed at 2:3"}},
		"a header whose quote is never closed":     {csvFormat(), "a,\"b\n1,2\n", []string{"csv_quote_unclosed at 1:3"}},
		"quotes are ordinary":                      {csvFormat(noQuote), "a,b\n\"1,19\"\"\n", []string{`2:1 {"a":"\"1","b":"19\"\""}`}},
		"another quote":                            {csvFormat(func(f *Format) { f.Quote = "'" }), "a,b\n'1,''2',\"3\"\n", []string{`2:1 {"a":"1,'2","b":"\"3\""}`}},
		"tabs":                                     {csvFormat(delimiter("\t")), "a\tb\n1,5\t2\n\t\n", []string{`2:1 {"a":"1,5","b":"2"}`, `3:1 {"a":"","b":""}`}},
		"auto: semicolon, though there are commas": {csvFormat(delimiter("auto"), required("a", "b")), "a;b;c,d\n1,0;2,0;3\n", []string{`2:1 {"a":"1,0","b":"2,0","c,d":"3"}`}},
		"auto: behind blank lines and in quotes":   {csvFormat(delimiter("auto"), required("a", "b;\nc")), "\n\"a\"|\"b;\nc\"\n1|2\n", []string{`4:1 {"a":"1","b;\nc":"2"}`}},
		"auto: no delimiter has the columns":       {csvFormat(delimiter("auto"), required("a", "b")), "a:b\n1:2\n", []string{"csv_delimiter_ambiguous at 1:1"}},
		"auto: several delimiters have them":       {csvFormat(delimiter("auto"), required("a")), "a\n1\n", []string{"csv_delimiter_ambiguous at 1:1"}},
		"auto: an empty text":                      {csvFormat(delimiter("auto"), required("a")), "", []string{"csv_delimiter_ambiguous at 1:1"}},
		"a field as long as it may be":             {csvFormat(noQuote), "a,b\n1," + long + "\n", []string{`2:1 {"a":"1","b":"` + long + `"}`}},
		"a field that is too long":                 {csvFormat(), "a,b\n1," + long + "x\n1,\"" + long + "\n\"\n3,4\n", []string{"2:1 row_malformed", "3:1 row_malformed", `5:1 {"a":"3","b":"4"}`}},
		"a header that is too long":                {csvFormat(), "a," + long + "x\n1,2\n", []string{"csv_malformed at 1:1"}},
		"more columns than a table has":            {csvFormat(), strings.Repeat(",", maxColumns) + "\n1,2\n", []string{"csv_malformed at 1:1"}},
		"more fields than columns, all empty":      {csvFormat(), "a\n1" + strings.Repeat(",", maxColumns+1) + "\n", []string{`2:1 {"a":"1"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, text := range map[string]io.Reader{
				"whole": strings.NewReader(tc.text), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.text)), "with its end": iotest.DataErrReader(strings.NewReader(tc.text)),
			} {
				if got := readAll(t, newCSVRows(text, tc.format)); !slices.Equal(got, tc.want) {
					t.Errorf("%s: got %.300q, want %.300q", how, got, tc.want)
				}
			}
		})
	}
}

// What any writer of RFC 4180 writes is read as it was meant.
func TestCSVIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end")
		width := rapid.IntRange(1, 4).Draw(t, "columns")
		field := rapid.StringOfN(rapid.SampledFrom([]rune("a1ü \",;\t|\r\n")), 0, 6, -1)
		var text strings.Builder
		for i := range width {
			fmt.Fprintf(&text, "%sc%d", strings.Repeat(",", min(i, 1)), i)
		}
		var want []string
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			row := map[string]string{}
			text.WriteString(end)
			for i := range width {
				value := field.Draw(t, "field")
				row[fmt.Sprintf("c%d", i)] = value
				text.WriteString(strings.Repeat(",", min(i, 1)))
				if strings.ContainsAny(value, "\",\r\n") || width == 1 || rapid.Bool().Draw(t, "quoted") {
					value = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
				}
				text.WriteString(value)
			}
			b, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(b))
		}
		rows := newCSVRows(strings.NewReader(text.String()), csvFormat())
		for _, w := range want {
			in, err := rows.next()
			if err != nil || in.fault != nil {
				t.Fatalf("%q: %v, %v", text.String(), err, in.fault)
			}
			if b, _ := json.Marshal(in.value); string(b) != w {
				t.Fatalf("%q: got %s, want %s", text.String(), b, w)
			}
		}
		if _, err := rows.next(); err != io.EOF { //nolint:errorlint // a reader's own
			t.Fatalf("%q: got %v after the last row", text.String(), err)
		}
	})
}

func TestNDJSON(t *testing.T) {
	long := `"` + strings.Repeat("x", readAhead) + `"`
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"lines that are not blank":                {"{\"a\":1}\n\n \t\r\n{\"a\":2}\r\n", []string{`1:1 {"a":1}`, `4:1 {"a":2}`}},
		"the last one ends with the text":         {"1\n  2", []string{"1:1 1", "2:3 2"}},
		"nothing":                                 {"", nil},
		"blanks alone":                            {" \n\n", nil},
		"a list is a row":                         {"[1,2]\n", []string{"1:1 [1,2]"}},
		"a line that is no JSON":                  {"{\"a\":1}\n{\"a\":}\n{\"a\":3}\n", []string{`1:1 {"a":1}`, "2:1 row_malformed at 2:6", `3:1 {"a":3}`}},
		"two documents on a line":                 {"1 2\n3\n", []string{"1:1 row_malformed at 1:4", "2:1 3"}},
		"a document on two lines":                 {"{\n}\n", []string{"1:1 row_malformed at 1:2", "2:1 row_malformed at 2:1"}},
		"a member twice":                          {"1\n{\"a\":1,\"\\u0061\":2}\n2", []string{"1:1 1", "2:1 json_duplicate_key at 2:8", "3:1 2"}},
		"half of a surrogate pair":                {"\"\\ud800\"\n1", []string{"1:1 text_invalid_unicode at 1:2", "2:1 1"}},
		"a number that is too long":               {strings.Repeat("9", maxFieldBytes+1) + "\n1", []string{"1:1  at 1:65538", "2:1 1"}},
		"nested too deep":                         {strings.Repeat("[", 300) + strings.Repeat("]", 300) + "\n1", []string{"1:1 row_malformed at 1:201", "2:1 1"}},
		"a line longer than what is read at once": {long + "\n" + long + "\n1", []string{"1:1 " + long, "2:1 " + long, "3:1 1"}},
		"a line that is too long":                 {`"` + strings.Repeat("x", maxRowBytes) + "\"\n1", []string{"1:1 row_malformed", "2:1 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readAll(t, newNDJSONRows(strings.NewReader(tc.text), defaultMaxDepth)); !slices.Equal(got, tc.want) {
				t.Errorf("got %.300q, want %.300q", got, tc.want)
			}
		})
	}
}

func TestAFaultOfARowHasItsLineAndColumn(t *testing.T) {
	s := Spec{Order: OrderObservedAt, Program: `{source_record: .sku, item: {mpn: .sku}, price: .price, currency: "EUR"}`}
	for kind, text := range map[string]string{
		KindCSV:    "sku,price\n\n\"A\n1\",1\nA-2,x\nA-3,-1\n",
		KindNDJSON: "\n{\"sku\":\"A-1\"}\n\n\n {\"sku\":\"A-2\",\"price\":\"x\"}\n{\"sku\":\"A-3\",\"price\":-1}",
		KindJSON:   "[{\"sku\":\"A-1\"},\n\n\n {\"sku\":\"A-2\",\"price\":\"x\"}\n,{\"sku\":\"A-3\",\"price\":-1}]",
	} {
		s.Format.Kind = kind
		var got []string
		for _, f := range mapText(t, s, text).Rejected {
			got = append(got, fmt.Sprintf("row %d at %d:%d: %s %s", f.Row, f.Line, f.Column, f.Path, f.Detail))
		}
		column := map[string]int{KindCSV: 1, KindNDJSON: 2, KindJSON: 2}[kind]
		last := map[string]int{KindCSV: 1, KindNDJSON: 1, KindJSON: 2}[kind]
		line := map[string]int{KindCSV: 5, KindNDJSON: 5, KindJSON: 4}[kind]
		want := []string{fmt.Sprintf("row 2 at %d:%d: price number_invalid", line, column), fmt.Sprintf("row 3 at %d:%d: price price_negative", line+1, last)}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
}

func TestFingerprintsOfFormats(t *testing.T) {
	one := map[string]string{KindCSV: "a,b\n1,2\n3,4\n", KindNDJSON: "{\"a\":1}\n{\"a\":2}\n"}
	shuffled := map[string]string{KindCSV: "b,a\r\n4,3\r\n2,\"1\"\r\n", KindNDJSON: "\n{ \"a\" : 2.0 }\n{\"a\":1}"}
	for kind, text := range one {
		s := plain
		s.Format.Kind = kind
		if got := mapText(t, s, text).Fingerprint; got != (offer.Fingerprint{Canonicalization: offer.CanonicalBytes, Digest: offer.Sum([]byte(text))}) {
			t.Errorf("%s: got %v, want that of the bytes", kind, got)
		}
		s.Fingerprint = FingerprintRows
		got, again := mapText(t, s, text).Fingerprint, mapText(t, s, shuffled[kind]).Fingerprint
		if got != again || got.Canonicalization != offer.CanonicalRows {
			t.Errorf("%s: got %v and, with its rows in another order, %v", kind, got, again)
		}
		// A row without a value has no canonical form, and neither has the payload.
		broken := text + map[string]string{KindCSV: "5\n", KindNDJSON: "{\n"}[kind]
		if got := mapText(t, s, broken).Fingerprint; got.Canonicalization != offer.CanonicalBytes {
			t.Errorf("%s: got %v for a payload with a broken row", kind, got)
		}
	}
}
