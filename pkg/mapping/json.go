package mapping

import (
	"bytes"
	"cmp"
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
	"github.com/offerlog/offerlog/pkg/offer"
)

// A jsonReader turns JSON text into the values that jq works on: nil, bool, json.Number with its literal text, string,
// []any and map[string]any.
type jsonReader struct {
	dec      *jsontext.Decoder
	maxDepth int
	names    map[string]string // one copy of each member name
	buf      []byte
	offsets  []int // of the elements of a top-level list
}

// readJSON reads one JSON document. Duplicate member names, unpaired surrogates, bytes after the document and nesting
// beyond maxDepth are faults, with line and column.
func readJSON(text []byte, maxDepth int) (value any, offsets []int, fault *offer.Fault) {
	r := jsonReader{dec: jsontext.NewDecoder(bytes.NewBuffer(text)), maxDepth: maxDepth, names: map[string]string{}}
	value, err := r.value(0)
	if err == nil {
		if _, err = r.dec.ReadToken(); errors.Is(err, io.EOF) {
			return value, r.offsets, nil
		} else if err == nil {
			err = errors.New("a second value after the document")
		}
	}
	return nil, nil, jsonFault(text, err, r.dec.InputOffset())
}

var errTooDeep = errors.New("nested too deep")

func (r *jsonReader) value(depth int) (any, error) {
	kind := r.dec.PeekKind()
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
			r.names[name] = name
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
		before := r.dec.InputOffset()
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if depth == 0 {
			r.offsets = append(r.offsets, int(before))
		}
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

// jsonFault says what is wrong with JSON text and where.
func jsonFault(text []byte, err error, read int64) *offer.Fault {
	detail, offset, path := "payload_malformed", int(read), ""
	reason, message := offer.ReasonSchemaInvalid, err.Error()
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if ok {
		offset, path, message = int(syntax.ByteOffset), string(syntax.JSONPointer), syntax.Err.Error()
	}
	switch {
	case errors.Is(err, offer.ErrOutOfRange): // jq converts a number in a time that grows with the square of its length
		reason, detail = offer.ReasonNumberOutOfRange, ""
	case errors.Is(err, jsontext.ErrDuplicateName):
		detail, message = "json_duplicate_key", "the object has this member twice; readers disagree on which of them counts"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		message = "the document ends too early"
	case ok && unpaired(text, err):
		reason, detail, message = offer.ReasonInvalidText, "text_invalid_unicode", "half of a surrogate pair, which is no character"
	}
	fault := deliveryFault(reason, detail, "%s", message)
	fault.Path = path
	fault.Line, fault.Column = position(string(text), min(max(offset, 0), len(text)))
	return fault
}

// unpaired reports whether half a surrogate pair is what is wrong with text: a reader that bears it gets further.
func unpaired(text []byte, err error) bool {
	lenient := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowInvalidUTF8(true))
	for {
		_, lax := lenient.ReadToken()
		if lax == nil {
			continue
		}
		further, ok := errors.AsType[*jsontext.SyntacticError](lax)
		strict, _ := errors.AsType[*jsontext.SyntacticError](err)
		return !ok || further.ByteOffset > strict.ByteOffset
	}
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

// A lineCounter gives the lines of rising offsets without counting from the start each time.
type lineCounter struct {
	text         []byte
	line, offset int
	start        int // of the line
}

// at wants the offset of a value, or of the white space and comma before it.
func (l *lineCounter) at(offset int) (line, column int) {
	for offset < len(l.text) && strings.IndexByte(" \t\r\n,", l.text[offset]) >= 0 {
		offset++
	}
	for ; l.offset < offset; l.offset++ {
		if l.text[l.offset] == '\n' {
			l.line++
			l.start = l.offset + 1
		}
	}
	return l.line + 1, utf8.RuneCount(l.text[l.start:offset]) + 1
}
