package mapping

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/offerlog/offerlog/pkg/offer"
)

// readTwice reads a delivery, twice, and wants the same result both times: a fault, or rows that add up and survive the pipe.
func readTwice(t *testing.T, p *Program, r *Request) Result {
	t.Helper()
	res, err := p.Map(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.Map(t.Context(), r); err != nil || !reflect.DeepEqual(res, again) {
		t.Errorf("got %+v and, again, %+v, %v", res, again, err)
	}
	switch {
	case res.Fingerprint.Canonicalization == "":
		t.Errorf("no fingerprint: %+v", res)
	case res.Fault != nil && res.Fault.Reason == "":
		t.Errorf("a fault without a reason: %+v", res.Fault)
	case res.Fault == nil && len(res.Rows)+len(res.Rejected)+res.Repeated != res.RowCount || res.RowCount > p.spec.Limits.MaxRows:
		t.Errorf("%d rows, but %d valid, %d rejected, %d repeated", res.RowCount, len(res.Rows), len(res.Rejected), res.Repeated)
	}
	for _, f := range res.Rejected {
		if r.HasData && (f.Row < 1 || f.Line < 1 || f.Column < 1) {
			t.Errorf("a rejected row without a place: %v", &f)
		}
	}
	packed := packResult(nil, &res)
	if again, err := unpackResult(packed); err != nil || !bytes.Equal(packResult(nil, &again), packed) {
		t.Errorf("a result does not survive the pipe: %v", err)
	}
	return res
}

// limited is plain, or csvOffers, with small limits and every canonicalization's work to do.
func limited(spec Spec, format Format) Spec {
	spec.Format, spec.Fingerprint, spec.Limits = format, FingerprintRows, Limits{MaxBytes: 4 << 10, MaxRows: 10, MaxDepth: 20}
	return spec
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"source_record":"A","price":1e5}`, `[{"a":"\ud800"}]`, `[1,[2,[3]]]`, `{"a":1,"a":2}`, "\ufeff{}", `[{"price_breaks":[{"min_qty":1}]}]`, "[1,\n2] 3", "[1", `[{"source_record":"A","item":{"mpn":"M"}},{"source_record":"A","item":{"mpn":"N"}}]`} {
		f.Add([]byte(seed))
	}
	whole, rows := mustCompile(f, plain), mustCompile(f, limited(plain, Format{}))
	f.Fuzz(func(t *testing.T, text []byte) {
		readTwice(t, whole, &Request{Payload: text, HasData: true, EventTime: noon})
		readTwice(t, rows, &Request{Payload: text, HasData: true, EventTime: noon})
		compareReaders(t, text, func(text io.Reader) reader { return newJSONRows(t.Context(), whole, text, nil) })
	})
}

func FuzzNDJSON(f *testing.F) {
	for _, seed := range []string{"{\"source_record\":\"A\"}\n\n{\"a\":1,\"a\":2}\r\n[", "\ufeff1\n2", "{\n}", "\"\\ud800\"", strings.Repeat("[", 30) + "\n1"} {
		f.Add([]byte(seed))
	}
	p := mustCompile(f, limited(plain, Format{Kind: KindNDJSON}))
	f.Fuzz(func(t *testing.T, text []byte) {
		readTwice(t, p, &Request{Payload: text, HasData: true, EventTime: noon})
		compareReaders(t, text, func(text io.Reader) reader { return newNDJSONRows(text, defaultMaxDepth) })
	})
}

func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"sku,price\nA,1\n\n\"B\n\"\"x\",2\r\n", "sku;price;\r\nA;1,5;\r", "a,\"b\nc", "sku\tprice\n\"1\t2\n", "a,a\n", "sku,price\nA\nB,1,2\nC,1,,\n", "a\"b\n", "\"a\"b\n", "\n \n,\n"} {
		f.Add([]byte(seed), ",", true)
		f.Add([]byte(seed), "auto", false)
	}
	f.Fuzz(func(t *testing.T, text []byte, delimiter string, quotes bool) {
		format := Format{Kind: KindCSV, Delimiter: delimiter, Required: []string{"sku"}}
		if !quotes {
			format.Quote = NoQuote
		}
		p, err := Compile(limited(csvOffers, format))
		if err != nil {
			return // no delimiter
		}
		readTwice(t, p, &Request{Payload: text, HasData: true, EventTime: noon})
		compareReaders(t, text, func(text io.Reader) reader { return newCSVRows(text, &p.spec.Format) })
	})
}

// compareReaders wants the same rows however the text comes, and no more than it has bytes.
func compareReaders(t *testing.T, text []byte, open func(io.Reader) reader) {
	t.Helper()
	whole := readAll(t, open(bytes.NewBuffer(slices.Clone(text))))
	if len(whole) > len(text)+1 {
		t.Errorf("%d rows of %d bytes", len(whole), len(text))
	}
	if parts := readAll(t, open(iotest.OneByteReader(bytes.NewReader(text)))); !slices.Equal(parts, whole) {
		t.Errorf("got %q and, byte by byte, %q", whole, parts)
	}
}

// Whatever is unpacked and decoded is UTF-8 of at most the limit, or a fault.
func FuzzText(f *testing.F) {
	f.Add([]byte("\xff\xfe[\x00]\x00"), "application/json", "")
	f.Add([]byte("{\"a\":\"\xe4\"}"), "application/json; charset=windows-1252", "")
	f.Add([]byte("K\xe4fig"), "text/csv", "iso-8859-1")
	f.Add([]byte("\ufeff\u00e4\xf0\x9f\x98"), ";;", "")
	f.Add([]byte("\xd8\x00\xd8\x00"), "text/csv; charset=utf-16be", "")
	f.Add([]byte("\x1b$B8"), "", "iso-2022-jp")
	f.Add(gzipped(f, "sku\n", "A\n"), "application/gzip", "")
	f.Add(gzipped(f, strings.Repeat("x", 5000)), "application/gzip", "shift_jis")
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x21\x00\x00sku\n"), "application/zstd", "")
	f.Fuzz(func(t *testing.T, payload []byte, contentType, charset string) {
		spec := limited(csvOffers, Format{Kind: KindCSV, Charset: charset})
		p, err := Compile(spec)
		if err != nil {
			return // no charset
		}
		r := &Request{Payload: payload, HasData: true, ContentType: contentType, EventTime: noon}
		readTwice(t, p, r)
		read := func(payload io.Reader) (string, error) {
			text, err := p.text(r, payload)
			if err != nil {
				return "", err
			}
			b, err := io.ReadAll(text)
			return string(b), err
		}
		text, err := read(bytes.NewReader(payload))
		switch {
		case err != nil && faultOf(err) == nil:
			t.Fatal(err)
		case err == nil && strings.ToValidUTF8(text, "") != text:
			t.Errorf("%q is no UTF-8", text)
		case len(text) > 3*p.spec.Limits.MaxBytes: // a byte of another charset becomes three at most
			t.Errorf("%d bytes of text", len(text))
		}
		if again, failed := read(iotest.OneByteReader(bytes.NewReader(payload))); (failed == nil) != (err == nil) || err == nil && again != text {
			t.Errorf("got %q, %v and, byte by byte, %q, %v", text, err, again, failed)
		}
	})
}

// A number text is a number that its canonical text gives again, or a fault.
func FuzzNumberText(f *testing.F) {
	for _, seed := range []string{"1.234.567,89", "-0,0025", "1 234,5", "+.5e-3", "1e1000000000", "12,34,567", "1..2", "-", "\u00a01", "1'000", strings.Repeat("9", 400)} {
		f.Add(seed, ",", ".")
		f.Add(seed, ".", "space")
		f.Add(seed, ".", "'")
		f.Add(seed, ".", "")
	}
	f.Fuzz(func(t *testing.T, text, decimal, group string) {
		p, err := Compile(with(plain, func(s *Spec) { s.Numbers = Numbers{Decimal: decimal, Group: group} }))
		if err != nil {
			return // no marks
		}
		d, err := p.decimal(text)
		if err != nil {
			if !errors.Is(err, offer.ErrNotANumber) && !errors.Is(err, offer.ErrOutOfRange) || len(err.Error()) > 300 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if again, err := offer.ParseDecimal(d.String()); !d.IsZero() && (err != nil || again != d) {
			t.Errorf("%q is %q, which is no canonical number: %v", text, d, err)
		}
		if digits := strings.Map(digit, text); strings.Trim(strings.Map(digit, d.String()), "0") != strings.Trim(strings.TrimSuffix(digits, exponentOf(text)), "0") {
			t.Errorf("%q has other digits than %q", d, text)
		}
	})
}

func digit(r rune) rune {
	if r < '0' || r > '9' {
		return -1
	}
	return r
}

// exponentOf has the digits of a number text's exponent.
func exponentOf(text string) string {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	return strings.Map(digit, exponent)
}

// A wall time is the instant that the layout says, or a fault.
func FuzzTimeText(f *testing.F) {
	f.Add("31/01/2021", "DD/MM/YYYY", "Europe/London")
	f.Add("2025-10-26 02:30:00", "YYYY-MM-DD hh:mm:ss", "Europe/Berlin")
	f.Add("2025-03-30 02:30:00", "YYYY-MM-DD hh:mm:ss", "Europe/Berlin")
	f.Add("20250301T1000", "YYYYMMDDThhmm", "UTC")
	f.Add("0000-00-00", "YYYY-MM-DD", "Pacific/Apia")
	f.Fuzz(func(t *testing.T, text, layout, zone string) {
		c, problem := newClock(TimeFormat{Layout: layout, Zone: zone})
		if problem != nil || c == nil {
			return // no layout
		}
		at, err := c.parse(text)
		if err != nil {
			if !errors.Is(err, offer.ErrNotATime) && !errors.Is(err, errAmbiguous) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if again, err := c.parse(text); err != nil || again != at {
			t.Errorf("%q is %v and, again, %v, %v", text, at, again, err)
		}
		if back, err := offer.ParseTime(at.Text); err != nil || back != at {
			t.Errorf("%q is %q, which reads as %v, %v", text, at.Text, back, err)
		}
	})
}

// Any text is a mapping or has its problems named.
func FuzzVet(f *testing.F) {
	for _, seed := range []string{".sku", `dmul(.price; "1.19")`, "[.breaks[]? | {min_qty: .qty}]", `def f: . ; f | f`, "now", ".price * 2", "1.5", "$ce.subject", "{(.a):1}", `"\(.a + 1)"`, "reduce .[] as $x (0; . + $x)", "..", "try error(1) catch .", "@base64", "limit(3; repeat(1))", "label $x | break $x", ".a as [$b] ?// $b | $b", "-.a", ".[1:]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		spec := Spec{Order: OrderObservedAt, Fields: map[string]any{"source_record": expression}}
		p, err := Compile(spec)
		if err != nil {
			var unreadable *SpecError
			if !errors.As(err, &unreadable) || len(unreadable.Problems) == 0 {
				t.Errorf("%q: %v", expression, err)
			}
			return
		}
		if again, err := Compile(spec); err != nil || again.Digest() != p.Digest() || again.Canonicalization() != p.Canonicalization() {
			t.Errorf("%q compiles to another program: %v", expression, err)
		}
	})
}
