package mapping

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"
	"github.com/offerlog/offerlog/pkg/offer"
)

// A jsonReader turns JSON text into the values that jq works on: nil, bool, json.Number with its literal text, string,
// []any and map[string]any.
type jsonReader struct {
	dec      *jsontext.Decoder
	text     places
	maxDepth int
	names    map[string]string // one copy of each member name
	buf      []byte
}

// maxNames bounds how many member names are kept, since a document may have new ones in every row.
const maxNames = 1000

func newJSONReader(text io.Reader, maxDepth int) *jsonReader {
	r := &jsonReader{maxDepth: maxDepth, names: map[string]string{}}
	if whole, ok := text.(*bytes.Buffer); ok { // which the decoder reads in place
		r.text = places{window: whole.Bytes()}
		r.dec = jsontext.NewDecoder(whole)
	} else {
		r.text = places{text: text}
		r.dec = jsontext.NewDecoder(&r.text)
	}
	return r
}

// readJSON reads one JSON document. Duplicate member names, unpaired surrogates, bytes after the document and nesting
// beyond maxDepth are faults, with line and column.
func readJSON(text []byte, maxDepth int) (any, *offer.Fault) {
	value, err := newJSONReader(bytes.NewBuffer(text), maxDepth).document()
	return value, faultOf(err)
}

// reset begins with another text.
func (r *jsonReader) reset(text []byte) {
	r.text = places{window: text}
	r.dec.Reset(bytes.NewBuffer(text))
}

// document reads the text as one document. Its error is a *offer.Fault, or that of the text.
func (r *jsonReader) document() (any, error) {
	value, err := r.value(0)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, r.fault(err)
	}
	return value, nil
}

// end reads what is left of the text: nothing but white space.
func (r *jsonReader) end() error {
	_, err := r.dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("a second value after the document")
	}
	return err
}

// jsonRows are the rows of a JSON document: the outputs of format.rows; without it the elements of a top-level list, which
// are read one by one, or the document.
type jsonRows struct {
	*jsonReader
	ctx       context.Context //nolint:containedctx // of the one delivery that is read
	rows      *gojq.Code
	canonical io.Writer
	form      []byte

	begun, ended bool
	listed       int       // elements read of a top-level list
	outputs      gojq.Iter // of format.rows
}

func newJSONRows(ctx context.Context, p *Program, text io.Reader, canonical io.Writer) *jsonRows {
	return &jsonRows{jsonReader: newJSONReader(text, p.spec.Limits.MaxDepth), ctx: ctx, rows: p.rows, canonical: canonical}
}

func (r *jsonRows) next() (row, error) {
	switch {
	case r.outputs != nil:
		return r.output()
	case r.ended:
		return row{}, io.EOF
	case r.begun:
		return r.element()
	}
	r.begun = true
	if r.dec.PeekKind() == jsontext.KindBeginArray && r.rows == nil {
		if _, err := r.dec.ReadToken(); err != nil {
			return row{}, r.fault(err)
		}
		r.write("[")
		return r.element()
	}
	r.ended = true
	out := row{line: 1, column: 1}
	var err error
	if out.value, err = r.document(); err != nil {
		return row{}, err
	}
	r.canonicalise(out.value)
	if r.rows == nil {
		out.end = r.dec.InputOffset()
		return out, nil
	}
	r.outputs = r.rows.RunWithContext(r.ctx, out.value, map[string]any{})
	return r.output()
}

// element reads one element of the top-level list.
func (r *jsonRows) element() (row, error) {
	before := r.dec.InputOffset()
	if r.dec.PeekKind() == jsontext.KindEndArray {
		r.ended = true
		if _, err := r.dec.ReadToken(); err != nil {
			return row{}, r.fault(err)
		}
		if err := r.end(); err != nil {
			return row{}, r.fault(err)
		}
		r.write("]")
		return row{}, io.EOF
	}
	var out row
	out.line, out.column = r.text.value(before)
	out.begin = r.text.base
	var err error
	if out.value, err = r.value(1); err != nil {
		return row{}, r.fault(err)
	}
	out.end = r.dec.InputOffset()
	if r.listed++; r.listed > 1 {
		r.write(",")
	}
	r.canonicalise(out.value)
	return out, nil
}

func (r *jsonRows) output() (row, error) {
	value, ok := r.outputs.Next()
	if !ok {
		return row{}, io.EOF
	}
	if err, failed := value.(error); failed {
		return row{}, deliveryFault(offer.ReasonMappingError, "", "format.rows: %v", err)
	}
	return row{value: value}, nil
}

func (r *jsonRows) canonicalise(value any) {
	if r.canonical != nil {
		r.form = appendCanonical(r.form[:0], value)
		_, _ = r.canonical.Write(r.form) // a hash takes everything
	}
}

func (r *jsonRows) write(mark string) {
	if r.canonical != nil {
		_, _ = io.WriteString(r.canonical, mark)
	}
}

var errTooDeep = errors.New("nested too deep")

func (r *jsonReader) value(depth int) (any, error) {
	kind := r.dec.PeekKind()
	r.text.keepUp(r.dec.InputOffset())
	switch kind {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		if depth == r.maxDepth {
			return nil, fmt.Errorf("%w: more than %d levels", errTooDeep, r.maxDepth)
		}
		if _, err := r.dec.ReadToken(); err != nil {
			return nil, err
		}
		if kind == jsontext.KindBeginObject {
			return r.object(depth)
		}
		return r.array(depth)
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	switch kind {
	case jsontext.KindString:
		unquoted, err := r.unquote(raw)
		return string(unquoted), err
	case jsontext.KindNumber:
		if len(raw) > maxFieldBytes {
			return nil, fmt.Errorf("%w: its text has %d bytes, and may have %d", offer.ErrOutOfRange, len(raw), maxFieldBytes)
		}
		return json.Number(raw), nil
	case jsontext.KindTrue:
		return true, nil
	case jsontext.KindFalse:
		return false, nil
	}
	return nil, nil
}

func (r *jsonReader) object(depth int) (any, error) {
	obj := map[string]any{}
	for r.dec.PeekKind() != jsontext.KindEndObject {
		raw, err := r.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		unquoted, err := r.unquote(raw)
		if err != nil {
			return nil, err
		}
		name, known := r.names[string(unquoted)]
		if !known {
			name = string(unquoted)
			if len(r.names) < maxNames {
				r.names[name] = name
			}
		}
		if obj[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.ReadToken()
	return obj, err
}

func (r *jsonReader) array(depth int) (any, error) {
	list := []any{}
	for r.dec.PeekKind() != jsontext.KindEndArray {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := r.dec.ReadToken()
	return list, err
}

// unquote returns the text of a valid JSON string; it stands until the next call.
func (r *jsonReader) unquote(raw []byte) ([]byte, error) {
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var err error
	r.buf, err = jsontext.AppendUnquote(r.buf[:0], raw)
	return r.buf, err
}

// fault says what is wrong with the text and where. What is no fault of the text is returned as it is.
func (r *jsonReader) fault(err error) error {
	if fault := faultOf(err); fault != nil {
		return fault
	}
	detail, offset, path := "payload_malformed", r.dec.InputOffset(), ""
	reason, message := offer.ReasonSchemaInvalid, err.Error()
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if ok {
		offset, path, message = syntax.ByteOffset, string(syntax.JSONPointer), syntax.Err.Error()
	}
	switch {
	case r.text.failed != nil:
		return r.text.failed
	case errors.Is(err, offer.ErrOutOfRange): // jq converts a number in a time that grows with the square of its length
		reason, detail = offer.ReasonNumberOutOfRange, ""
	case errors.Is(err, jsontext.ErrDuplicateName):
		detail, message = "json_duplicate_key", "the object has this member twice; readers disagree on which of them counts"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		message = "the document ends too early"
	case ok && strings.HasPrefix(message, "invalid surrogate pair"): // the error has no kind of its own
		reason, detail, message = offer.ReasonInvalidText, "text_invalid_unicode", "half of a surrogate pair, which is no character"
	}
	fault := deliveryFault(reason, detail, "%s", message)
	fault.Path = path
	fault.Line, fault.Column = r.text.at(offset)
	return fault
}

// appendCanonical writes json/1: RFC 8785 (members in the order of their UTF-16 units, strings in their shortest form, no
// white space), except that a number is its exact value: an integer without trailing zeros and the power of ten that it
// is to be multiplied with (10.50 is 105e-1, 300 is 3e2, -0 is 0).
func appendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		return appendNumber(dst, string(v))
	case int:
		return appendNumber(dst, strconv.Itoa(v))
	case *big.Int:
		return appendNumber(dst, v.String())
	case float64: // made by the expression that gives the rows, never by a payload
		return appendNumber(dst, strconv.FormatFloat(v, 'e', -1, 64))
	case string:
		dst, _ = jsontext.AppendQuote(dst, v)
		return dst
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, compareUTF16)
		dst = append(dst, '{')
		for i, name := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = jsontext.AppendQuote(dst, name)
			dst = append(dst, ':')
			dst = appendCanonical(dst, v[name])
		}
		return append(dst, '}')
	}
	panic(fmt.Sprintf("mapping: a %T is no JSON value", v))
}

// appendNumber never expands an exponent, so 1e1000000000 costs no more than its letters.
func appendNumber(dst []byte, literal string) []byte {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa, exponent := rest, "0"
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa, exponent = rest[:i], strings.TrimPrefix(rest[i+1:], "+")
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return append(dst, '0')
	}
	coefficient := strings.TrimRight(digits, "0")
	shift := int64(len(digits) - len(coefficient) - len(fraction))
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, coefficient...)
	e, err := strconv.ParseInt(exponent, 10, 64)
	if err != nil || e > 1<<62 || e < -1<<62 {
		huge, _ := new(big.Int).SetString(exponent, 10)
		return huge.Add(huge, big.NewInt(shift)).Append(append(dst, 'e'), 10)
	}
	if e += shift; e == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, 'e'), e, 10)
}

// compareUTF16 orders texts by their UTF-16 units, in which the characters beyond U+FFFF come before U+E000.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, xn := utf8.DecodeRuneInString(a)
		y, yn := utf8.DecodeRuneInString(b)
		if x != y {
			if (x > 0xffff) != (y > 0xffff) && min(x, y) >= 0xe000 {
				return cmp.Compare(y, x)
			}
			return cmp.Compare(x, y)
		}
		a, b = a[xn:], b[yn:]
	}
	return cmp.Compare(len(a), len(b))
}

// A place is a line and a column in characters, both from 0.
type place struct{ line, column int }

// pass moves the place behind a text.
func (p *place) pass(text []byte) {
	if lines := bytes.Count(text, []byte{'\n'}); lines > 0 {
		p.line, p.column = p.line+lines, 0
		text = text[bytes.LastIndexByte(text, '\n')+1:]
	}
	p.column += utf8.RuneCount(text)
}

// places tells line and column of rising offsets in a text that is read once. It keeps what has been read and not passed.
type places struct {
	text   io.Reader
	failed error  // of the text
	window []byte // from base on
	base   int64
	place  place // of base
}

// Read implements io.Reader. A value so long that it would have to be held in parts is a fault.
func (p *places) Read(b []byte) (int, error) {
	n, err := p.text.Read(b)
	p.window = append(p.window, b[:n]...)
	if len(p.window) > maxRowBytes && err == nil {
		fault := deliveryFault(offer.ReasonSchemaInvalid, "payload_malformed", "a name or a value has more than %d bytes", maxRowBytes)
		fault.Line, fault.Column = p.place.line+1, p.place.column+1
		n, err = 0, fault
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.failed = err
	}
	return n, err
}

// keepUp passes the offset where much lies before it.
func (p *places) keepUp(offset int64) {
	if offset-p.base > readAhead {
		p.pass(offset)
	}
}

// pass forgets what lies before the offset.
func (p *places) pass(offset int64) {
	n := min(max(int(offset-p.base), 0), len(p.window))
	p.place.pass(p.window[:n])
	p.window, p.base = p.window[n:], p.base+int64(n)
}

// at passes to the offset.
func (p *places) at(offset int64) (line, column int) {
	p.pass(offset)
	return p.place.line + 1, p.place.column + 1
}

// value is at for the value that comes after the offset, behind white space and a comma.
func (p *places) value(offset int64) (line, column int) {
	const blanks = " \t\r\n"
	p.pass(offset)
	rest := bytes.TrimLeft(p.window, blanks)
	rest = bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(",")), blanks)
	return p.at(p.base + int64(len(p.window)-len(rest)))
}
