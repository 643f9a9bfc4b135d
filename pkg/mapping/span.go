package mapping

import (
	"bytes"
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

// Span finds a row of a delivery that has been read, by its number from 1, and returns its bytes. It reads the payload again, without
// running an expression, so a row that an expression in format.rows makes is an ErrNoSpan: what only walks to a list (.offers[]) makes
// none. The payload must be in memory.
func (p *Program) Span(ctx context.Context, r *Request, number int) (Span, []byte, error) {
	text, err := p.text(r, bytes.NewReader(r.Payload))
	if err != nil {
		return Span{}, nil, err
	}
	s, skipped := Span{Of: OfText}, int64(0)
	if plain, ok := text.(*bytes.Buffer); ok {
		s.Of, skipped = OfPayload, int64(len(r.Payload)-plain.Len())
	}
	whole, err := io.ReadAll(text)
	if err != nil {
		return Span{}, nil, fmt.Errorf("read the payload again: %w", err)
	}
	if p.rows != nil {
		s.Begin, s.End, err = p.elementSpan(whole, number)
	} else {
		s.Begin, s.End, err = p.rowSpan(ctx, whole, number)
	}
	if err != nil {
		return Span{}, nil, fmt.Errorf("find row %d: %w", number, err)
	}
	raw := whole[s.Begin:s.End]
	s.Begin, s.End = s.Begin+skipped, s.End+skipped
	return s, raw, nil
}

// rowSpan asks the format's reader.
func (p *Program) rowSpan(ctx context.Context, text []byte, number int) (begin, end int64, err error) {
	rows := p.newReader(ctx, bytes.NewReader(text), nil)
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
func (p *Program) elementSpan(text []byte, number int) (begin, end int64, err error) {
	rows := strings.TrimSpace(p.spec.Format.Rows)
	if !element.MatchString(rows) {
		return 0, 0, fmt.Errorf("%w: format.rows makes it: %s", ErrNoSpan, shorten(rows))
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
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
