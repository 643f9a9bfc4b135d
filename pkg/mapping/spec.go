package mapping

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zone names mean the same on a machine without zone files
	"unicode/utf8"

	"github.com/offerlog/offerlog/pkg/offer"
	"golang.org/x/text/encoding/htmlindex"
)

// Normaliser names the rules of the normal form and the versions of its tables. A change of what any payload is read as
// is a new name, and with it a new digest of every Spec.
const Normaliser = "normal/1"

// A Spec is the part of a feed that shapes how a payload is read. A mapping version freezes it. Zero fields stand for
// their defaults; Order and one of Fields and Program have none.
type Spec struct {
	Format      Format     `json:"format,omitzero"`
	Fingerprint string     `json:"fingerprint,omitempty"` // bytes | json | rows; default json where the format is, else bytes
	Order       string     `json:"order"`                 // version | observed_at
	Numbers     Numbers    `json:"numbers,omitzero"`
	NullTokens  []string   `json:"null_tokens,omitzero"` // texts that mean absent; nil: the empty text
	Time        TimeFormat `json:"time,omitzero"`
	Units       []string   `json:"units,omitempty"` // if given, other units are a fault
	Limits      Limits     `json:"limits,omitzero"`
	NoData      string     `json:"no_data,omitempty"` // refuse (default) | map: an event without data maps one row, null

	// Fields gives each field of an observation a jq expression over one row; item and quantity_basis may be nested.
	Fields map[string]any `json:"fields,omitempty"`
	// Program is one jq program instead of Fields: one row in, one observation out.
	Program string `json:"program,omitempty"`
}

// A Format says what the payload's bytes are.
type Format struct {
	Kind string `json:"kind,omitempty"` // json (default) | ndjson | csv | xml
	// Rows finds them. json: jq over the document, each output is a row; default: the object, or each element of a top-level
	// list. xml: the path of their elements, names as written with / between them, the document's own first; needed.
	Rows string `json:"rows,omitempty"`
	// Charset counts where the content type names none; default: UTF-16 by its mark, else UTF-8. An XML document that names
	// its own is read in that.
	Charset     string   `json:"charset,omitempty"`
	Compression string   `json:"compression,omitempty"` // gzip | zstd; default: what the content type says
	Delimiter   string   `json:"delimiter,omitempty"`   // csv: one character; auto: the one of , ; tab | under which the header has all Required; default ,
	Quote       Quote    `json:"quote,omitempty"`       // csv: default "
	Required    []string `json:"required,omitempty"`    // csv: columns that the header must have
	Doctype     string   `json:"doctype,omitempty"`     // xml: refuse (default) | name: one may name a DTD, which is never read
}

// A Quote is the character around fields that hold delimiters, line ends or quotes.
type Quote string

// NoQuote is null in JSON: quotes are ordinary characters.
const NoQuote Quote = "none"

// MarshalJSON writes NoQuote as null.
func (q Quote) MarshalJSON() ([]byte, error) {
	if q == NoQuote {
		return []byte("null"), nil
	}
	return json.Marshal(string(q))
}

// UnmarshalJSON reads null as NoQuote.
func (q *Quote) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*q = NoQuote
		return nil
	}
	return json.Unmarshal(b, (*string)(q))
}

// Numbers says how number texts are written. JSON numbers have one spelling, so only Amounts concerns them.
type Numbers struct {
	Decimal string `json:"decimal,omitempty"` // mark before the fraction: "." (default) or ","
	Group   string `json:"group,omitempty"`   // mark between thousands: none (default) . , ' ’ or space
	Amounts string `json:"amounts,omitempty"` // major (default), or minor: prices are integers in the currency's minor unit
}

// A TimeFormat says how times are written, where it is not RFC 3339.
type TimeFormat struct {
	Layout string `json:"layout,omitempty"` // such as DD/MM/YYYY hh:mm:ss
	Zone   string `json:"zone,omitempty"`   // IANA name; needed with a layout
}

// Limits bound one delivery.
type Limits struct {
	MaxBytes int `json:"max_bytes,omitempty"` // of the payload; default 16777216
	MaxRows  int `json:"max_rows,omitempty"`  // default 2000000
	MaxDepth int `json:"max_depth,omitempty"` // of nested lists and objects; default 200
}

// Values of Spec fields.
const (
	KindJSON         = "json"
	KindNDJSON       = "ndjson"
	KindCSV          = "csv"
	KindXML          = "xml"
	CompressionGzip  = "gzip"
	CompressionZstd  = "zstd"
	DelimiterAuto    = "auto"
	OrderVersion     = "version"
	OrderObservedAt  = "observed_at"
	FingerprintBytes = "bytes"
	FingerprintJSON  = "json"
	FingerprintRows  = "rows"
	AmountsMajor     = "major"
	AmountsMinor     = "minor"
	GroupSpace       = "space" // U+0020, U+00A0, U+2009 or U+202F
	NoDataRefuse     = "refuse"
	NoDataMap        = "map"
	DoctypeRefuse    = "refuse"
	DoctypeName      = "name"
)

const (
	defaultMaxBytes  = 16 << 20
	defaultMaxRows   = 2_000_000
	defaultMaxDepth  = 200
	deepest          = 10_000   // levels of nesting that the JSON reader itself bears
	maxFieldBytes    = 64 << 10 // of a number of a payload
	maxTextBytes     = 1024     // of a text in an observation
	maxPriceBreaks   = 1000
	maxLocations     = 100
	maxLocationBytes = 128
	maxSourceBytes   = 64 << 10 // of all expressions of a Spec together
)

// WithDefaults fills in what the zero value stands for.
func (s Spec) WithDefaults() Spec {
	text := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	number := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	text(&s.Format.Kind, KindJSON)
	switch s.Format.Kind {
	case KindJSON:
		text(&s.Fingerprint, FingerprintJSON)
	case KindCSV:
		text(&s.Format.Delimiter, ",")
		text((*string)(&s.Format.Quote), `"`)
	case KindXML:
		text(&s.Format.Doctype, DoctypeRefuse)
	}
	text(&s.Fingerprint, FingerprintBytes)
	text(&s.Numbers.Decimal, ".")
	text(&s.Numbers.Amounts, AmountsMajor)
	text(&s.NoData, NoDataRefuse)
	number(&s.Limits.MaxBytes, defaultMaxBytes)
	number(&s.Limits.MaxRows, defaultMaxRows)
	number(&s.Limits.MaxDepth, defaultMaxDepth)
	if s.NullTokens == nil {
		s.NullTokens = []string{""}
	}
	return s
}

// Digest names the reading: equal digests read every payload alike. A default written out is the default.
func (s Spec) Digest() offer.Digest {
	b, err := json.Marshal(s.WithDefaults())
	if err != nil {
		panic("mapping: a spec that is no JSON: " + err.Error()) // texts, numbers and maps of texts always are
	}
	return sha256.Sum256(append([]byte("offerlog mapping\n"+Normaliser+"\n"), b...))
}

// A Problem is one thing in a Spec that cannot stand.
type Problem struct {
	Field   string // where in the spec: fields.item.mpn
	Line    int    // within the expression, from 1; 0 where the problem is the setting itself
	Column  int    // in characters, from 1
	Message string // what is wrong and what to write instead
}

// Error is field: line:column: message.
func (p Problem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s: line %d, column %d: %s", p.Field, p.Line, p.Column, p.Message)
	}
	return p.Field + ": " + p.Message
}

// A SpecError holds all problems of a Spec.
type SpecError struct{ Problems []Problem }

// Error has one line for each problem.
func (e *SpecError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Validate reports everything that is wrong with the settings and expressions, as a *SpecError.
func (s Spec) Validate() error {
	_, err := Compile(s)
	return err
}

// settings checks all but the expressions. It wants the defaults filled in.
func (s *Spec) settings() (problems []Problem) {
	bad := func(field, format string, args ...any) {
		problems = append(problems, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	oneOf := func(field, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			bad(field, "%q is not known; want %s", value, strings.Join(allowed, " or "))
		}
	}
	s.format(bad)
	oneOf("fingerprint", s.Fingerprint, FingerprintBytes, FingerprintJSON, FingerprintRows)
	if s.Fingerprint == FingerprintJSON && s.Format.Kind != KindJSON {
		bad("fingerprint", "json is the canonical form of one JSON document, and format.kind is %s; want bytes, or rows where neither the order of rows nor their spelling counts", s.Format.Kind)
	}
	if s.Order != OrderVersion && s.Order != OrderObservedAt {
		bad("order", "%q is not known; want version (the source numbers its versions) or observed_at (it does not); arrival says nothing about which claim is newer", s.Order)
	}
	oneOf("numbers.decimal", s.Numbers.Decimal, ".", ",")
	oneOf("numbers.group", s.Numbers.Group, "", ".", ",", "'", "’", GroupSpace)
	if s.Numbers.Group == s.Numbers.Decimal {
		bad("numbers.group", "%q is the decimal mark too", s.Numbers.Group)
	}
	oneOf("numbers.amounts", s.Numbers.Amounts, AmountsMajor, AmountsMinor)
	oneOf("no_data", s.NoData, NoDataRefuse, NoDataMap)
	if _, err := newClock(s.Time); err != nil {
		problems = append(problems, *err)
	}
	for _, l := range []struct {
		field string
		n     int
	}{{"limits.max_bytes", s.Limits.MaxBytes}, {"limits.max_rows", s.Limits.MaxRows}, {"limits.max_depth", s.Limits.MaxDepth}} {
		if l.n < 1 {
			bad(l.field, "%d is no limit; want 1 or more", l.n)
		}
	}
	if s.Limits.MaxDepth >= deepest {
		bad("limits.max_depth", "%d is too deep; want less than %d", s.Limits.MaxDepth, deepest)
	}
	switch {
	case len(s.Fields) > 0 && s.Program != "":
		bad("program", "fields are given too; keep one of the two")
	case len(s.Fields) == 0 && s.Program == "":
		bad("fields", "no field and no program is given; give each field a jq expression, such as source_record: .sku")
	}
	return problems
}

// format checks the settings of the payload's format, and that each is one of its kind.
func (s *Spec) format(bad func(field, format string, args ...any)) {
	f := &s.Format
	if kinds := []string{KindJSON, KindNDJSON, KindCSV, KindXML}; !slices.Contains(kinds, f.Kind) {
		bad("format.kind", "%q is not read by this version; it reads: %s", f.Kind, strings.Join(kinds, ", "))
	}
	for _, of := range []struct {
		setting string
		given   bool
		kinds   []string
	}{
		{"rows", f.Rows != "", []string{KindJSON, KindXML}},
		{"delimiter", f.Delimiter != "", []string{KindCSV}},
		{"quote", f.Quote != "", []string{KindCSV}},
		{"required", len(f.Required) > 0, []string{KindCSV}},
		{"doctype", f.Doctype != "", []string{KindXML}},
	} {
		if of.given && !slices.Contains(of.kinds, f.Kind) {
			bad("format."+of.setting, "is a setting of %s, and format.kind is %s; leave it out", strings.Join(of.kinds, " and "), f.Kind)
		}
	}
	if f.Charset != "" {
		if _, err := htmlindex.Get(f.Charset); err != nil {
			bad("format.charset", "%q is not known; want a name such as utf-8 or windows-1252", f.Charset)
		}
	}
	if f.Compression != "" && f.Compression != CompressionGzip && f.Compression != CompressionZstd {
		bad("format.compression", "%q is not known; want gzip or zstd", f.Compression)
	}
	switch f.Kind {
	case KindCSV:
		s.csv(bad)
	case KindXML:
		if _, err := xmlPath(f.Rows); err != nil {
			bad("format.rows", "%v", err)
		}
		if f.Doctype != DoctypeRefuse && f.Doctype != DoctypeName {
			bad("format.doctype", "%q is not known; want refuse or name", f.Doctype)
		}
	}
}

// csv checks the settings that only CSV has.
func (s *Spec) csv(bad func(field, format string, args ...any)) {
	f := &s.Format
	// A mark that stands in names and numbers too would cut them.
	isMark := func(c string) bool {
		return len(c) == 1 && c[0] < utf8.RuneSelf && !strings.ContainsAny(c, "\r\n\x00 .+-") && !alphanumeric(c[0])
	}
	if f.Delimiter != DelimiterAuto && (!isMark(f.Delimiter) || f.Delimiter == `"`) {
		bad("format.delimiter", "%q cannot part fields; want one ASCII mark, such as a comma, a semicolon, a tab or |, or auto", f.Delimiter)
	}
	if f.Quote != NoQuote && (!isMark(string(f.Quote)) || string(f.Quote) == f.Delimiter || f.Delimiter == DelimiterAuto && strings.Contains(autoDelimiters, string(f.Quote))) {
		bad("format.quote", "%q cannot stand around fields; want one ASCII mark other than the delimiter, such as \", or null where quotes are ordinary characters", string(f.Quote))
	}
	if f.Delimiter == DelimiterAuto && len(f.Required) == 0 {
		bad("format.required", "is missing; auto takes the delimiter under which the header line has all required columns")
	}
	seen := map[string]bool{}
	for _, name := range f.Required {
		if name == "" || name != trim(name) || seen[name] {
			bad("format.required", "%q is no column of its own; want each name once, without outer blanks", shorten(name))
		}
		seen[name] = true
	}
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// sourceBytes is the length of all expressions together.
func (s *Spec) sourceBytes() int {
	n := len(s.Format.Rows) + len(s.Program)
	for _, v := range s.Fields {
		switch v := v.(type) {
		case string:
			n += len(v)
		case map[string]any: // item or quantity_basis
			for _, part := range v {
				text, _ := part.(string) // Compile refuses what is none
				n += len(text)
			}
		}
	}
	return n
}

// A clock reads times as a TimeFormat says.
type clock struct {
	parts []layoutPart
	zone  *time.Location
}

// A layoutPart is a number of so many digits, or a literal text.
type layoutPart struct {
	unit    byte // Y M D h m s; 0: literal
	width   int
	literal string
}

func newClock(f TimeFormat) (*clock, *Problem) {
	if f == (TimeFormat{}) {
		return nil, nil
	}
	problem := func(field, format string, args ...any) (*clock, *Problem) {
		return nil, &Problem{Field: field, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case f.Layout == "":
		return problem("time.layout", "a zone is given without a layout; RFC 3339 times carry their own zone")
	case f.Zone == "":
		return problem("time.zone", "a layout needs the zone of its times, such as Europe/Berlin or UTC")
	case f.Zone == "Local":
		return problem("time.zone", "Local depends on the machine; want a name such as Europe/Berlin or UTC")
	}
	zone, err := time.LoadLocation(f.Zone)
	if err != nil {
		return problem("time.zone", "%q is not known; want an IANA name such as Europe/Berlin", f.Zone)
	}
	c := &clock{zone: zone}
	seen := map[byte]bool{}
	for rest := f.Layout; rest != ""; {
		unit := byte(0)
		for _, token := range []string{"YYYY", "MM", "DD", "hh", "mm", "ss"} {
			if after, ok := strings.CutPrefix(rest, token); ok {
				unit, rest = token[0], after
				c.parts = append(c.parts, layoutPart{unit: unit, width: len(token)})
				break
			}
		}
		if unit == 0 {
			_, width := utf8.DecodeRuneInString(rest)
			literal := rest[:width]
			if strings.Contains("YMDhms", literal) {
				return problem("time.layout", "%q stands alone in %q; want YYYY MM DD hh mm ss and marks between them", literal, f.Layout)
			}
			c.parts = append(c.parts, layoutPart{literal: literal})
			rest = rest[width:]
			continue
		}
		if seen[unit] {
			return problem("time.layout", "%q names a part twice", f.Layout)
		}
		seen[unit] = true
	}
	if !seen['Y'] || !seen['M'] || !seen['D'] {
		return problem("time.layout", "%q names no full date; want YYYY, MM and DD in it", f.Layout)
	}
	return c, nil
}
