package mapping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNoSpan reports a row that is no part of the payload as it stands.
var ErrNoSpan = errors.New("the row is no part of the payload as it stands")

// A Span is where a row stands: the bytes from Begin to before End.
type Span struct {
	Of    string `json:"of"` // OfPayload | OfText
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
}

// Values of Span.Of: what the bytes are counted in.
const (
	OfPayload = "payload" // as it was sent
	OfText    = "text"    // of a payload that is packed, or in another charset than UTF-8: as it was read, UTF-8 without a mark
)

// element is a format.rows of JSON that only walks to a list: .offers[], .data.items[], .[].
var element = regexp.MustCompile(`^\.(?:\[\]|[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\[\])$`)

// Span finds a row of a delivery that has been read, by its number from 1. It reads the payload again, from a reader and with no more
// memory than a few rows need, without running an expression. So a row that an expression in format.rows makes is an ErrNoSpan: what only
// walks to a list (.offers[]) makes none. Of r its ContentType counts, and its Length, which is the payload's.
func (p *Program) Span(ctx context.Context, r *Request, payload io.Reader, number int) (s Span, err error) {
	text, of, skipped, err := p.again(r, payload)
	if err != nil {
		return s, err
	}
	s.Of = of
	if p.rows != nil {
		s.Begin, s.End, err = p.elementSpan(text, number)
	} else {
		s.Begin, s.End, err = p.rowSpan(ctx, text, number)
	}
	if err != nil {
		return s, fmt.Errorf("find row %d: %w", number, err)
	}
	s.Begin, s.End = s.Begin+skipped, s.End+skipped
	return s, nil
}

// Cut reads the bytes of a row that Span has found, from the beginning of the same payload.
func (p *Program) Cut(r *Request, payload io.Reader, s Span) ([]byte, error) {
	if s.Of == OfText {
		text, _, _, err := p.again(r, payload)
		if err != nil {
			return nil, err
		}
		payload = text
	}
	if _, err := io.CopyN(io.Discard, payload, s.Begin); err != nil {
		return nil, fmt.Errorf("read up to byte %d: %w", s.Begin, err)
	}
	raw := make([]byte, s.End-s.Begin)
	if _, err := io.ReadFull(payload, raw); err != nil {
		return nil, fmt.Errorf("read bytes %d to %d: %w", s.Begin, s.End, err)
	}
	return raw, nil
}

// again is the text of a payload, what a place in it is counted in, and how many bytes of the payload stand before its first.
func (p *Program) again(r *Request, payload io.Reader) (text io.Reader, of string, skipped int64, err error) {
	text, err = p.text(&Request{ContentType: r.ContentType, Length: r.Length}, payload)
	if checked, ok := text.(*checkedText); ok && checked.verbatim {
		return text, OfPayload, checked.skipped, err
	}
	return text, OfText, 0, err
}

// rowSpan asks the format's reader.
func (p *Program) rowSpan(ctx context.Context, text io.Reader, number int) (begin, end int64, err error) {
	rows := p.newReader(ctx, text, nil)
	for n := 1; ; n++ {
		in, err := rows.next()
		switch {
		case errors.Is(err, io.EOF):
			return 0, 0, fmt.Errorf("%w: it has %d", ErrNoSpan, n-1)
		case err != nil:
			return 0, 0, err
		case n == number:
			return in.begin, in.end, nil
		}
	}
}

// elementSpan walks to an element of the list that format.rows names.
func (p *Program) elementSpan(text io.Reader, number int) (begin, end int64, err error) {
	rows := strings.TrimSpace(p.spec.Format.Rows)
	if !element.MatchString(rows) {
		return 0, 0, fmt.Errorf("%w: format.rows makes it: %s", ErrNoSpan, shorten(rows))
	}
	dec := jsontext.NewDecoder(text)
	for name := range strings.SplitSeq(strings.Trim(strings.TrimSuffix(rows, "[]"), "."), ".") {
		if name == "" {
			break
		}
		if err := walkTo(dec, name); err != nil {
			return 0, 0, err
		}
	}
	if dec.PeekKind() != jsontext.KindBeginArray {
		return 0, 0, fmt.Errorf("%w: %s goes through no list", ErrNoSpan, rows)
	}
	if _, err := dec.ReadToken(); err != nil {
		return 0, 0, err
	}
	for n := 1; dec.PeekKind() != jsontext.KindEndArray; n++ {
		raw, err := dec.ReadValue()
		if err != nil {
			return 0, 0, err
		}
		if end := dec.InputOffset(); n == number {
			return end - int64(len(raw)), end, nil
		}
	}
	return 0, 0, ErrNoSpan
}

// walkTo reads an object up to the value of a member.
func walkTo(dec *jsontext.Decoder, name string) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return fmt.Errorf("%w: there is no member %q", ErrNoSpan, name)
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if token.String() == name {
			return nil
		}
		if err := dec.SkipValue(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: there is no member %q", ErrNoSpan, name)
}
