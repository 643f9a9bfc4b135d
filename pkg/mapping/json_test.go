package mapping

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/offerlog/offerlog/pkg/offer"
	"pgregory.net/rapid"
)

func TestCanonicalJSON(t *testing.T) {
	for text, want := range map[string]string{
		` { "b" : 1 , "a" : [ ] } `:           `{"a":[],"b":1}`,
		`10.50`:                               `105e-1`,
		`300`:                                 `3e2`,
		`3e2`:                                 `3e2`,
		`0.00`:                                `0`,
		`-0`:                                  `0`,
		`-0.0e5`:                              `0`,
		`1E+2`:                                `1e2`,
		`0.1e1`:                               `1`,
		`9007199254740993`:                    `9007199254740993`,
		`1e1000000000`:                        `1e1000000000`,
		`10e999999999`:                        `1e1000000000`,
		`1e9223372036854775807`:               `1e9223372036854775807`,
		`10e9223372036854775807`:              `1e9223372036854775808`,
		`0.1e-99999999999999999999999999`:     `1e-100000000000000000000000000`,
		`"\u00e9\/\u0007\n\""`:                `"é/\u0007\n\""`,
		`{"\ue000":1,"\ud83d\ude00":2,"z":3}`: "{\"z\":3,\"\U0001F600\":2,\"\ue000\":1}",
		`{"\ud83d\ude01":1,"\ud83d\ude00":2}`: "{\"\U0001F600\":2,\"\U0001F601\":1}",
		`{"a":{"b":null,"a":true},"":false,"a ":0}`: `{"":false,"a":{"a":true,"b":null},"a ":0}`,
	} {
		value, fault := readJSON([]byte(text), defaultMaxDepth)
		if fault != nil {
			t.Errorf("%s: %v", text, fault)
			continue
		}
		if got := string(appendCanonical(nil, value)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestJSONFaults(t *testing.T) {
	deep := strings.Repeat("[", 201) + strings.Repeat("]", 201)
	for name, tc := range map[string]struct {
		text, detail string
		line, column int
	}{
		"nothing":                       {"", "payload_malformed", 1, 1},
		"a document cut off":            {"{\"a\":\n[1,", "payload_malformed", 2, 4},
		"two documents":                 {"{}\n{}", "payload_malformed", 2, 2},
		"bytes after the document":      {"{} x", "payload_malformed", 1, 4},
		"no JSON":                       {"sku,mpn\nA-1,A-1\n", "payload_malformed", 1, 1},
		"a member twice":                {"{\"a\":1,\n \"a\":2}", "json_duplicate_key", 2, 2},
		"a member twice, once escaped":  {`{"a":1,"\u0061":2}`, "json_duplicate_key", 1, 8},
		"a member twice further down":   {`[{"x":{"a":1,"b":2,"a":1}}]`, "json_duplicate_key", 1, 20},
		"half a pair":                   {`{"a":"\ud800"}`, "text_invalid_unicode", 1, 7},
		"a pair the wrong way round":    {`["\udc00\ud800"]`, "text_invalid_unicode", 1, 3},
		"half a pair in a name":         {`{"\ud800x":1}`, "text_invalid_unicode", 1, 3},
		"an escape that is none":        {`["\x"]`, "payload_malformed", 1, 3},
		"a number with a leading zero":  {`[01]`, "payload_malformed", 1, 3},
		"a number without fraction":     {`[1.]`, "payload_malformed", 1, 4},
		"not a number":                  {`[NaN]`, "payload_malformed", 1, 2},
		"nested deeper than any export": {deep, "payload_malformed", 1, 201},
	} {
		t.Run(name, func(t *testing.T) {
			_, fault := readJSON([]byte(tc.text), defaultMaxDepth)
			if fault == nil || fault.Detail != tc.detail || fault.Line != tc.line || fault.Column != tc.column {
				t.Errorf("got %v, want %s at %d:%d", fault, tc.detail, tc.line, tc.column)
			}
		})
	}
	if _, fault := readJSON([]byte(deep[1:len(deep)-1]), defaultMaxDepth); fault != nil {
		t.Errorf("200 levels: %v", fault)
	}
}

func TestAHugeExponentCostsNoMoreThanItsLetters(t *testing.T) {
	began := time.Now()
	payload := "[" + strings.Repeat(`{"source_record":"A","item":{"mpn":"M"},"price":1e1000000000,"quantity":-1e-1000000000,"currency":"EUR"},`, 1000) + "{}]"
	res := mapText(t, plain, payload)
	if len(res.Rejected) != 1001 || res.Rejected[0].Reason != offer.ReasonNumberOutOfRange || res.Fingerprint.Canonicalization != offer.CanonicalJSON {
		t.Errorf("got %d rejected, %v", len(res.Rejected), res.Fault)
	}
	for _, number := range []string{strings.Repeat("9", 4<<20), "1e" + strings.Repeat("9", 4<<20)} {
		if res := mapText(t, plain, `{"unmapped":`+number+`}`); res.Fault == nil || res.Fault.Reason != offer.ReasonNumberOutOfRange || res.Fault.Line != 1 {
			t.Errorf("a number of %d bytes: got %v", len(number), res.Fault)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestCharsets(t *testing.T) {
	const text = `{"source_record":"Käfig–5€","item":{"mpn":"M"}}`
	utf16Of := func(s string, little bool) []byte {
		var b []byte
		for _, u := range utf16.Encode([]rune(s)) {
			if little {
				b = binary.LittleEndian.AppendUint16(b, u)
			} else {
				b = binary.BigEndian.AppendUint16(b, u)
			}
		}
		return b
	}
	western := strings.NewReplacer("ä", "\xe4", "–", "\x96", "€", "\x80").Replace(text)
	ebcdic := with(plain, func(s *Spec) { s.Format.Charset = "windows-1252" })
	for name, tc := range map[string]struct {
		spec        Spec
		payload     []byte
		contentType string
		detail      string
	}{
		"UTF-8":                                {plain, []byte(text), "", ""},
		"UTF-8 with its mark":                  {plain, []byte("\ufeff" + text), "application/json", ""},
		"UTF-16 by its mark":                   {plain, utf16Of("\ufeff"+text, true), "application/json", ""},
		"UTF-16, the other way round":          {plain, utf16Of("\ufeff"+text, false), "application/json", ""},
		"UTF-16 declared, with a mark":         {plain, utf16Of("\ufeff"+text, false), "application/json; charset=utf-16", ""},
		"UTF-16 declared, without":             {plain, utf16Of(text, true), "application/json; charset=UTF-16LE", ""},
		"windows-1252 by the content type":     {plain, []byte(western), "application/json; charset=windows-1252", ""},
		"windows-1252 by the feed":             {ebcdic, []byte(western), "application/json", ""},
		"the content type goes first":          {ebcdic, []byte(text), "application/json; charset=utf-8", ""},
		"windows-1252 undeclared":              {plain, []byte(western), "application/json", "payload_encoding_invalid"},
		"bytes that are not what is declared":  {plain, []byte(strings.ReplaceAll(text, "ä", "\x81\xff")), "application/json; charset=utf-8", "payload_encoding_invalid"},
		"half a pair in UTF-16":                {plain, append(utf16Of("\ufeff\"", true), 0x00, 0xd8, '"', 0), "application/json", "payload_encoding_invalid"},
		"a charset that nobody knows":          {plain, []byte(text), "application/json; charset=klingon", "payload_charset_unsupported"},
		"a content type of something else":     {plain, []byte(text), "text/csv", ""},
		"gzip":                                 {plain, []byte("\x1f\x8b\x08"), "application/gzip", "payload_truncated"},
		"an EDI document":                      {plain, []byte("UNA:+.? 'UNB+UNOC:3'"), "application/edifact", "payload_format_unsupported"},
		"a content type that cannot be parsed": {plain, []byte(text), ";;;", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{Payload: tc.payload, HasData: true, ContentType: tc.contentType, EventTime: noon}
			res, err := mustCompile(t, tc.spec).Map(t.Context(), &r)
			if err != nil {
				t.Fatal(err)
			}
			if tc.detail != "" {
				if res.Fault == nil || res.Fault.Detail != tc.detail || res.Fingerprint != unreadable(t, &r) {
					t.Errorf("got %v, %v; want %s and bytes/1", res.Fault, res.Fingerprint, tc.detail)
				}
				return
			}
			if res.Fault != nil || res.Rows[0].Record != "Käfig–5€" {
				t.Errorf("got %+v, %v", res.Rows, res.Fault)
			}
			if want := mapText(t, plain, text).Fingerprint; res.Fingerprint != want {
				t.Errorf("the charset changes the fingerprint: %v, want %v", res.Fingerprint, want)
			}
		})
	}
}

func TestDataThatIsNotThere(t *testing.T) {
	r := Request{EventTime: noon, Attributes: map[string]string{"subject": "A-1", "sequence": "4"}}
	res, err := mustCompile(t, plain).Map(t.Context(), &r)
	if err != nil || res.Fault == nil || res.Fault.Detail != "data_missing" {
		t.Errorf("got %v, %v; want data_missing", res.Fault, err)
	}
	s := Spec{Order: OrderVersion, NoData: NoDataMap, Program: `{source_record: $ce.subject, source_version: $ce.sequence, deleted: (. == null)}`}
	res, err = mustCompile(t, s).Map(t.Context(), &r)
	if err != nil || res.Fault != nil || res.RowCount != 1 || res.Rows[0].Record != "A-1" || res.Rows[0].Version != 4 || !res.Rows[0].Content.Deleted {
		t.Errorf("got %+v, %v; want the deletion of A-1", res, err)
	}
	empty := r
	empty.HasData = true
	if got, err := mustCompile(t, s).Map(t.Context(), &empty); err != nil || got.Fault == nil || got.Fault.Detail != "payload_malformed" || got.Fingerprint == res.Fingerprint {
		t.Errorf("zero bytes: got %v, %v; want payload_malformed and another fingerprint", got.Fault, err)
	}
}

func TestLimits(t *testing.T) {
	small := with(plain, func(s *Spec) { s.Limits = Limits{MaxBytes: 100, MaxRows: 2, MaxDepth: 3} })
	for payload, want := range map[string]string{
		`[{},{},{}]`:                           offer.ReasonMappingLimit,
		`[[[[]]]]`:                             offer.ReasonSchemaInvalid,
		`["` + strings.Repeat("a", 100) + `"]`: offer.ReasonDecompressionLimit,
	} {
		for _, rows := range []string{"", ".[]"} {
			small.Format.Rows = rows
			if res := mapText(t, small, payload); res.Fault == nil || res.Fault.Reason != want {
				t.Errorf("%s: got %v, want %s", payload, res.Fault, want)
			}
		}
	}
}

func TestRows(t *testing.T) {
	for name, tc := range map[string]struct {
		rows, payload string
		count         int
		reason        string
	}{
		"an object is a row":             {"", `{"source_record":"A","item":{"mpn":"M"}}`, 1, ""},
		"a list is its elements":         {"", `[{"source_record":"A","item":{"mpn":"M"}},{"source_record":"B","item":{"mpn":"M"}}]`, 2, ""},
		"an empty list has none":         {"", `[]`, 0, ""},
		"an expression finds them":       {".offers[]", `{"offers":[{"source_record":"A","item":{"mpn":"M"}}]}`, 1, ""},
		"an expression finds none":       {".offers[]?", `{}`, 0, ""},
		"an expression fails":            {".offers[]", `{}`, 0, offer.ReasonMappingError},
		"all rows are bad":               {"", `[{},{}]`, 2, offer.ReasonSchemaInvalid},
		"a bad row beside a good one":    {"", `[{},{"source_record":"B","item":{"mpn":"M"}}]`, 2, ""},
		"a list that holds null, and 17": {"", `[null,17,{"source_record":"B","item":{"mpn":"M"}}]`, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain
			s.Format.Rows = tc.rows
			res := mapText(t, s, tc.payload)
			reason := ""
			if res.Fault != nil {
				reason = res.Fault.Reason
			}
			if res.RowCount != tc.count || reason != tc.reason || len(res.Rows)+len(res.Rejected) != tc.count {
				t.Errorf("got %+v (%v), want %d rows, %q", res, res.Fault, tc.count, tc.reason)
			}
		})
	}
}

func TestS_000_18_AFingerprintHasItsCanonicalizationsNameAndVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		fingerprint, program, want, form string
	}{
		"json":                {"", plain.Program, "json/1", `{"a":[3e1,"x"],"b":1}`},
		"bytes":               {"bytes", plain.Program, "bytes/1", `{"b": 1.0, "a": [30, "x"]}`},
		"rows":                {"rows", plain.Program, "rows/1", formOfRows(`{"a":[3e1,"x"],"b":1}`)},
		"attributes it reads": {"", `{source_record: $ce.subject, quantity: $ce["stock"]}`, "json/1+stock+subject", ""},
		"all attributes":      {"rows", `$ce`, "rows/1+*", ""},
		"the time it maps":    {"", `{observed_at: $ce.time}`, "json/1+time", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, Spec{Order: OrderObservedAt, Fingerprint: tc.fingerprint, Program: tc.program})
			r := Request{Payload: []byte(`{"b": 1.0, "a": [30, "x"]}`), HasData: true, Attributes: map[string]string{"subject": "A"}}
			res, err := p.Map(t.Context(), &r)
			if err != nil {
				t.Fatal(err)
			}
			if res.Fingerprint.Canonicalization != tc.want || p.Canonicalization() != tc.want {
				t.Errorf("got %s, want %s", res.Fingerprint.Canonicalization, tc.want)
			}
			if tc.form != "" && res.Fingerprint.Digest != offer.Sum([]byte(tc.form)) {
				t.Errorf("the digest is not that of %s", tc.form)
			}
		})
	}
}

// unreadable is the fingerprint of a delivery whose payload cannot be read.
func unreadable(t *testing.T, r *Request) offer.Fingerprint {
	t.Helper()
	f, err := bytesFingerprint(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// formOfRows is the text whose digest rows/1 is.
func formOfRows(rows ...string) string {
	var digests []string
	for _, r := range rows {
		d := offer.Sum([]byte(r))
		digests = append(digests, string(d[:]))
	}
	slices.Sort(digests)
	return strings.Join(digests, "")
}

func TestRowsFingerprintIsTheDigestOfTheSortedDigestsOfTheRows(t *testing.T) {
	s := plain
	s.Fingerprint = FingerprintRows
	want := offer.Sum([]byte(formOfRows(`{"a":1}`, `{"a":2}`, `{"a":2}`, `null`)))
	for name, payload := range map[string]string{
		"one order":     `[{"a":1},{"a":2},null,{"a":2.0}]`,
		"another order": `[ {"a":2}, {"a":2}, {"a":1}, null ]`,
	} {
		if got := mapText(t, s, payload).Fingerprint.Digest; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := mapText(t, s, `[{"a":1},{"a":2},null]`).Fingerprint.Digest; got == want {
		t.Error("a row less has the same fingerprint")
	}
}

func TestS_000_24_ARetryMayDifferInWhatIsNotItsContent(t *testing.T) {
	p := mustCompile(t, Spec{Order: OrderVersion, Program: `{source_record: .sku, source_version: $ce.sequence, item: {mpn: .sku}}`})
	first := Request{
		Payload: []byte(`{"sku":"A-1","price":10.50}`), HasData: true, ContentType: "application/json", EventTime: noon,
		Attributes: map[string]string{"id": "E-1", "sequence": "4", "time": "2025-03-01T10:00:00Z", "recordedtime": "2025-03-01T10:00:01Z", "traceparent": "00-aa-bb-01", "partitionkey": "a"},
	}
	fingerprint := func(change func(*Request)) offer.Fingerprint {
		r := first
		r.Attributes = map[string]string{}
		for name, v := range first.Attributes {
			r.Attributes[name] = v
		}
		change(&r)
		res, err := p.Map(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		return res.Fingerprint
	}
	want := fingerprint(func(*Request) {})
	for name, change := range map[string]func(*Request){
		"recordedtime":     func(r *Request) { r.Attributes["recordedtime"] = "2025-03-02T10:00:01Z" },
		"time":             func(r *Request) { r.Attributes["time"] = "2025-03-02T10:00:01Z"; r.EventTime = offer.Time{} },
		"trace":            func(r *Request) { r.Attributes["traceparent"] = "00-cc-dd-01" },
		"an attribute":     func(r *Request) { delete(r.Attributes, "partitionkey") },
		"content type":     func(r *Request) { r.ContentType = "application/json; charset=utf-8" },
		"spelling":         func(r *Request) { r.Payload = []byte("{ \"price\" : 1.05e1,\n\"\\u0073ku\":\"A-1\"}") },
		"canonicalization": func(r *Request) { r.Canonicalization = "json/1+sequence" },
	} {
		if got := fingerprint(change); got != want {
			t.Errorf("another %s: got %v, want %v", name, got, want)
		}
	}
	for name, change := range map[string]func(*Request){
		"the sequence it reads": func(r *Request) { r.Attributes["sequence"] = "5" },
		"no sequence":           func(r *Request) { delete(r.Attributes, "sequence") },
		"a price":               func(r *Request) { r.Payload = []byte(`{"sku":"A-1","price":10.51}`) },
		"a number as a text":    func(r *Request) { r.Payload = []byte(`{"sku":"A-1","price":"10.5"}`) },
		"no data":               func(r *Request) { r.HasData = false },
		"no bytes":              func(r *Request) { r.Payload = nil },
	} {
		if got := fingerprint(change); got.Digest == want.Digest {
			t.Errorf("%s: the fingerprint stays", name)
		}
	}
}

func TestAFingerprintCanBeComputedUnderAnEarlierMapping(t *testing.T) {
	old := mustCompile(t, Spec{Order: OrderVersion, Program: `{source_record: .sku, source_version: $ce.sequence}`})
	now := mustCompile(t, Spec{Order: OrderVersion, Fingerprint: "rows", Program: `{source_record: .sku, source_version: .rev, quantity: $ce.stock}`})
	r := Request{Payload: []byte(`{"sku":"A-1"}`), HasData: true, Attributes: map[string]string{"sequence": "1", "stock": "2"}}
	first, err := old.Map(t.Context(), &r)
	if err != nil {
		t.Fatal(err)
	}
	r.Canonicalization = first.Fingerprint.Canonicalization
	again, err := now.Map(t.Context(), &r)
	if err != nil || again.Fingerprint != first.Fingerprint {
		t.Errorf("got %v, %v; want %v", again.Fingerprint, err, first.Fingerprint)
	}
}

func TestRowsCompareAsAMultiset(t *testing.T) {
	s := plain
	s.Fingerprint = FingerprintRows
	fingerprint := func(payload string) offer.Fingerprint { return mapText(t, s, payload).Fingerprint }
	want := fingerprint(`[{"a":1},{"a":2},{"a":2}]`)
	if got := fingerprint(`[{"a":2},{"a":1.0}, {"a":2}]`); got != want {
		t.Errorf("another order: got %v, want %v", got, want)
	}
	for _, other := range []string{`[{"a":1},{"a":2}]`, `[{"a":1},{"a":1},{"a":2}]`, `[{"a":1},{"a":2},{"a":3}]`} {
		if fingerprint(other) == want {
			t.Errorf("%s: the fingerprint stays", other)
		}
	}
}

// A tree is a JSON value, and how to write it in one of many ways.
func tree(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.StringMatching(`[a-c\x{e9}\x{e000}\x{1F600}"\\\n]{0,4}`), func(s string) any { return s }),
		rapid.Map(rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,12})?`), func(s string) any { return json.Number(s) }),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(tree(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-c\x{e000}\x{1F600}]{0,3}`), tree(depth-1), 0, 3), func(m map[string]any) any { return m }))
}

// spell writes a value with its members, white space, escapes and number digits as the draw says.
func spell(t *rapid.T, b *strings.Builder, v any) {
	space := func() {
		b.WriteString(rapid.SampledFrom([]string{"", " ", "\n", "\t "}).Draw(t, "space"))
	}
	text := func(s string) {
		b.WriteByte('"')
		for _, r := range s {
			switch {
			case rapid.Bool().Draw(t, "escape") || r == '"' || r == '\\' || r == '\n':
				for _, u := range utf16.Encode([]rune{r}) {
					fmt.Fprintf(b, `\u%04x`, u)
				}
			default:
				b.WriteRune(r)
			}
		}
		b.WriteByte('"')
	}
	space()
	defer space()
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		fmt.Fprint(b, v)
	case string:
		text(v)
	case json.Number:
		b.WriteString(respell(t, string(v)))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(t, b, e)
		}
		b.WriteByte(']')
	case map[string]any:
		names := rapid.Permutation(sortedKeys(v)).Draw(t, "order")
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			text(name)
			space()
			b.WriteByte(':')
			spell(t, b, v[name])
		}
		b.WriteByte('}')
	}
}

// respell writes a number's value in another way: with zeros after the fraction and another exponent.
func respell(t *rapid.T, s string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if exponent == "" {
		exponent = "0"
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	e, _ := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	fraction += strings.Repeat("0", rapid.IntRange(0, 3).Draw(t, "zeros"))
	if fraction != "" && whole != "0" && whole != "-0" && rapid.Bool().Draw(t, "shift") {
		whole, fraction = whole+fraction[:1], fraction[1:]
		e.Sub(e, big.NewInt(1))
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return whole + fraction + rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e") + e.String()
}

func TestSpellingNeverChangesTheCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := tree(3).Draw(t, "value")
		want := appendCanonical(nil, v)
		var b strings.Builder
		spell(t, &b, v)
		read, fault := readJSON([]byte(b.String()), defaultMaxDepth)
		if fault != nil {
			t.Fatal(fault, b.String())
		}
		if got := appendCanonical(nil, read); !bytes.Equal(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// sameValue compares without the canonical form.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(n))
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, sameValue)
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(a) != len(m) {
			return false
		}
		for name, v := range a {
			w, there := m[name]
			if !there || !sameValue(v, w) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

// sameNumber brings both numbers to one exponent, as integers.
func sameNumber(a, b string) bool {
	scan := func(s string) (coefficient, exponent *big.Int) {
		mantissa, e, _ := strings.Cut(strings.ToLower(s), "e")
		exponent, ok := new(big.Int).SetString(strings.TrimPrefix(e, "+"), 10)
		if !ok {
			exponent = new(big.Int)
		}
		whole, fraction, _ := strings.Cut(mantissa, ".")
		coefficient, _ = new(big.Int).SetString(whole+fraction, 10)
		return coefficient, exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	}
	ac, ae := scan(a)
	bc, be := scan(b)
	if ac.Sign() == 0 || bc.Sign() == 0 {
		return ac.Sign() == bc.Sign()
	}
	shift := new(big.Int).Sub(ae, be)
	if shift.CmpAbs(big.NewInt(200)) > 0 {
		return false // the coefficients have at most 41 digits
	}
	ten := big.NewInt(10)
	if shift.Sign() >= 0 {
		ac.Mul(ac, ten.Exp(ten, shift, nil))
	} else {
		bc.Mul(bc, ten.Exp(ten, shift.Neg(shift), nil))
	}
	return ac.Cmp(bc) == 0
}

func TestAnotherValueAlwaysHasAnotherCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tree(2).Draw(t, "a"), tree(2).Draw(t, "b")
		if same, equal := sameValue(a, b), bytes.Equal(appendCanonical(nil, a), appendCanonical(nil, b)); same != equal {
			t.Errorf("%v and %v: same value %v, same form %v", a, b, same, equal)
		}
		n := rapid.StringMatching(`-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`)
		x, y := n.Draw(t, "x"), n.Draw(t, "y")
		if same, equal := sameNumber(x, y), string(appendNumber(nil, x)) == string(appendNumber(nil, y)); same != equal {
			t.Errorf("%s and %s: same value %v, same form %v", x, y, same, equal)
		}
	})
}

func TestCompareUTF16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a\x{7ff}\x{d7ff}\x{e000}\x{ffff}\x{10000}\x{10ffff}]{0,4}`)
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		if got, want := compareUTF16(a, b), slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))); got != want {
			t.Errorf("%q and %q: got %d, want %d", a, b, got, want)
		}
	})
}

// Whatever the bytes are, they are read or refused with a reason, and a fingerprint stands.
// A canonical form is JSON and its own canonical form.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":1.50,"a":[null,true,"\u00e9"]}`, `-0.00e-7`, `1e99999999999999999999`, `{"\ud83d\ude00":1,"\ue000":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return
		}
		value, fault := readJSON(text, defaultMaxDepth)
		if fault != nil {
			if fault.Line < 1 || fault.Column < 1 {
				t.Errorf("a fault without a place: %v", fault)
			}
			return
		}
		form := appendCanonical(nil, value)
		again, fault := readJSON(form, defaultMaxDepth)
		if fault != nil {
			t.Fatalf("%s is no JSON: %v", form, fault)
		}
		if twice := appendCanonical(nil, again); !bytes.Equal(twice, form) {
			t.Errorf("%s becomes %s", form, twice)
		}
	})
}
