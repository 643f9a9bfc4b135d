package mapping

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// cut finds a row and reads it.
func cut(ctx context.Context, p *Program, payload []byte, number int) (Span, []byte, error) {
	r := &Request{Length: int64(len(payload))}
	s, err := p.Span(ctx, r, bytes.NewReader(payload), number)
	if err != nil {
		return s, nil, err
	}
	raw, err := p.Cut(r, bytes.NewReader(payload), s)
	return s, raw, err
}

func TestSpanIsTheRowAsItWasSent(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.String()
	}
	for name, tc := range map[string]struct {
		format  Format
		payload string
		want    []string
		of      string
	}{
		"a list":                        {Format{}, ` [ {"a": 1} , {"a": 1.50},[]]`, []string{`{"a": 1}`, `{"a": 1.50}`, `[]`}, OfPayload},
		"a list behind members":         {Format{Rows: ".data.offers[]"}, `{"x": [1], "data": {"y": {"offers": [0]}, "offers": [{"a":1}, {"a": 2} ]}}`, []string{`{"a":1}`, `{"a": 2}`}, OfPayload},
		"a list by itself":              {Format{Rows: ".[]"}, `[1, "\u0041"]`, []string{`1`, `"\u0041"`}, OfPayload},
		"one document":                  {Format{}, `{"a": 1}`, []string{`{"a": 1}`}, OfPayload},
		"behind a mark":                 {Format{}, "\ufeff[{\"a\": \"ü\"}]", []string{`{"a": "ü"}`}, OfPayload},
		"lines":                         {Format{Kind: KindNDJSON}, "{\"a\":1}\r\n\n  {\"a\": 2} \n{\"a\":3}", []string{`{"a":1}`, `{"a": 2} `, `{"a":3}`}, OfPayload},
		"a line longer than the buffer": {Format{Kind: KindNDJSON}, `{"a":"` + strings.Repeat("x", 3*readAhead) + "\"}\n[2]\n", []string{`{"a":"` + strings.Repeat("x", 3*readAhead) + `"}`, `[2]`}, OfPayload},
		"csv":                           {Format{Kind: KindCSV}, "a,b\r\n1,\"x\r\ny\"\r\n\r\nü,2\n3,\"4\"", []string{"1,\"x\r\ny\"", "ü,2", `3,"4"`}, OfPayload},
		"csv that ends with a CR":       {Format{Kind: KindCSV}, "a,b\n1,2\r", []string{"1,2"}, OfPayload},
		"csv with a CR in a field":      {Format{Kind: KindCSV}, "a,b\n1\r2,3\n", []string{"1\r2,3"}, OfPayload},
		"xml":                           {Format{Kind: KindXML, Rows: "c/o"}, "<c>\r\n<o a='1'>x</o>\n<p/><o a=\"2\" />\n</c>", []string{`<o a='1'>x</o>`, `<o a="2" />`}, OfPayload},
		"packed":                        {Format{Kind: KindNDJSON, Compression: CompressionGzip}, packed("[1]\n[2]\n"), []string{"[1]", "[2]"}, OfText},
		"another charset":               {Format{Kind: KindCSV, Charset: "windows-1252"}, "a\n\xfc\nx\n", []string{"ü", "x"}, OfText},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(Spec{Format: tc.format, Order: OrderObservedAt, Program: "."})
			if err != nil {
				t.Fatal(err)
			}
			payload := []byte(tc.payload)
			for i, want := range tc.want {
				s, raw, err := cut(t.Context(), p, payload, i+1)
				if err != nil || string(raw) != want || s.Of != tc.of {
					t.Errorf("row %d: got %q, %+v and error %v, want %q of the %s", i+1, raw, s, err, want, tc.of)
				}
				if s.Of == OfPayload && err == nil && string(payload[s.Begin:s.End]) != want {
					t.Errorf("row %d: bytes %d to %d are %q, want %q", i+1, s.Begin, s.End, payload[s.Begin:s.End], want)
				}
			}
			if _, _, err := cut(t.Context(), p, payload, len(tc.want)+1); !errors.Is(err, ErrNoSpan) {
				t.Errorf("behind the last row: got error %v", err)
			}
		})
	}
	for name, rows := range map[string]string{"made by an expression": ".offers | map({a: .a}) | .[]", "members of an object": ".object[]", "no such member": ".none[]"} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(Spec{Format: Format{Rows: rows}, Order: OrderObservedAt, Program: "."})
			if err != nil {
				t.Fatal(err)
			}
			if _, raw, err := cut(t.Context(), p, []byte(`{"offers": [{"a": 1}], "object": {"a": {}}}`), 1); !errors.Is(err, ErrNoSpan) {
				t.Errorf("got %q and error %v", raw, err)
			}
		})
	}
}

// Whatever the texts are, a span read alone is the row that the whole payload has.
func TestSpanReadAloneIsTheRow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-zäß€",;\r\n\t ]{0,6}`), 1, 5).Draw(rt, "texts")
		kind := rapid.SampledFrom([]string{KindJSON, KindNDJSON, KindCSV}).Draw(rt, "kind")
		var b bytes.Buffer
		b.WriteString(map[string]string{KindJSON: "[", KindCSV: "a,b\n"}[kind])
		for i, text := range texts {
			switch line, _ := json.Marshal(map[string]string{"a": text}); kind {
			case KindCSV:
				fmt.Fprintf(&b, "\"%s\",%d%s", strings.ReplaceAll(text, `"`, `""`), i, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(rt, "end"))
			case KindNDJSON:
				fmt.Fprintf(&b, "%s\n", line)
			default:
				fmt.Fprintf(&b, "%s%s", strings.Repeat(" ,\n", min(i, 1)), line)
			}
		}
		b.WriteString(map[string]string{KindJSON: "]"}[kind])
		p, err := Compile(Spec{Format: Format{Kind: kind}, Order: OrderObservedAt, Program: "."})
		if err != nil {
			rt.Fatal(err)
		}
		values := func(payload []byte) []any {
			rows, err := p.Values(t.Context(), &Request{Payload: payload, HasData: true})
			if err != nil {
				rt.Fatalf("%q: %v", payload, err)
			}
			return rows
		}
		for i, want := range values(b.Bytes()) {
			_, raw, err := cut(t.Context(), p, b.Bytes(), i+1)
			if err != nil {
				rt.Fatal(err)
			}
			if kind == KindCSV {
				raw = slices.Concat([]byte("a,b\n"), raw)
			}
			if got := values(raw); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
				rt.Fatalf("row %d of %q is %q: got %v, want %v", i+1, b.Bytes(), raw, got, want)
			}
		}
	})
}

// A filler is a payload that is in nobody's memory: as much of one text as it is to have, between a beginning and an end.
// While it is read it notes the most memory that was held.
type filler struct {
	begin, text, end string
	left             int64 // bytes of the text that are still to come
	rest             []byte
	since            int64
	held             uint64
}

func (f *filler) Read(b []byte) (int, error) {
	if f.begin != "" {
		f.rest, f.begin = []byte(f.begin), ""
	}
	if len(f.rest) == 0 && f.left > 0 {
		f.rest, f.left = []byte(f.text), f.left-int64(len(f.text))
		if f.since += int64(len(f.text)); f.since >= 8<<20 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			f.held, f.since = max(f.held, m.HeapAlloc), 0
		}
	}
	if len(f.rest) == 0 && f.end != "" {
		f.rest, f.end = []byte(f.end), ""
	}
	n := copy(b, f.rest)
	if f.rest = f.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestSpanHoldsNoMoreThanRows(t *testing.T) {
	const size = 64 << 20
	row := `{"sku": "` + strings.Repeat("x", 1000) + `"}`
	last := `{"sku": "last"}`
	for name, tc := range map[string]struct {
		format  Format
		payload filler
		number  int
		want    string
	}{
		"lines":                  {Format{Kind: KindNDJSON}, filler{text: row + "\n", end: last}, 0, last},
		"csv":                    {Format{Kind: KindCSV}, filler{begin: "sku\n", text: strings.Repeat("x", 1000) + "\n", end: "last"}, 0, "last"},
		"xml":                    {Format{Kind: KindXML, Rows: "c/o"}, filler{begin: "<c>", text: "<o>" + strings.Repeat("x", 1000) + "</o>", end: "<o>last</o></c>"}, 0, "<o>last</o>"},
		"a list":                 {Format{}, filler{begin: "[1", text: "," + row, end: "," + last + "]"}, 1, last},
		"a list in a member":     {Format{Rows: ".offers[]"}, filler{begin: `{"offers": [1`, text: "," + row, end: "," + last + "]}"}, 1, last},
		"a list behind a member": {Format{Rows: ".offers[]"}, filler{begin: `{"old": [1`, text: "," + row, end: `], "offers": [` + last + "]}"}, -1, last},
	} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, packed %t", name, packed), func(t *testing.T) {
				format, number := tc.format, 1
				if tc.number >= 0 {
					number = int(size/int64(len(tc.payload.text))) + tc.number + 1
				}
				if packed {
					format.Compression = CompressionGzip
				}
				p, err := Compile(Spec{Format: format, Order: OrderObservedAt, Program: ".", Limits: Limits{MaxBytes: 2 * size}})
				if err != nil {
					t.Fatal(err)
				}
				var from *filler
				open := func() io.Reader {
					f := tc.payload
					f.left = size / int64(len(f.text)) * int64(len(f.text))
					if from = &f; !packed {
						return from
					}
					r, w := io.Pipe()
					go func() {
						z := gzip.NewWriter(w)
						_, err := io.Copy(z, from)
						_ = w.CloseWithError(errors.Join(err, z.Close()))
					}()
					return r
				}
				var before runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				r := &Request{Length: size}
				s, err := p.Span(t.Context(), r, open(), number)
				if err != nil {
					t.Fatal(err)
				}
				held := from.held
				raw, err := p.Cut(r, open(), s)
				if err != nil || string(raw) != tc.want {
					t.Fatalf("got %q and error %v, want %q", raw, err, tc.want)
				}
				if held = max(held, from.held); held == 0 || held > before.HeapAlloc+8<<20 {
					t.Errorf("a payload of %d bytes takes %d of memory", size, held-before.HeapAlloc)
				}
			})
		}
	}
}
