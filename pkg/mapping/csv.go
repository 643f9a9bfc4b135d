package mapping

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/offerlog/offerlog/pkg/offer"
)

const (
	autoDelimiters = ",;\t|"
	maxColumns     = 16_384 // as many as a spreadsheet has
)

// csvRows are the records after the header of a CSV text: RFC 4180, where a record ends with LF, CRLF or the text. A quote
// where none may stand ends the document, since nobody knows which rows it swallowed.
//
// encoding/csv is not it: there quotes cannot be ordinary characters, header and records have no columns to tell, and a
// record is held whole however long it is.
type csvRows struct {
	text      *bufio.Reader
	format    *Format
	delimiter byte
	quote     byte      // 0: none
	marks     [256]bool // that end a run of a field's bytes
	closing   [256]bool // that end one in quotes

	names []string // of the columns; nil before the header was read
	at    place    // of the next byte
	pos   int64    // of the next byte
	last  place    // of the byte that was read last

	// The record that was read last.
	begin  place
	from   int64  // its first byte
	to     int64  // behind its last byte, without the end of its line; -1: it ends with the text
	fields []byte // their texts, one after the other
	ends   []int  // of each in fields
	quoted bool   // the first one was
	excess place  // of what the header has no column for, and is not empty
	long   string // what is too long; "": nothing
}

func newCSVRows(text io.Reader, format *Format) *csvRows {
	c := &csvRows{text: buffered(text), format: format}
	if format.Delimiter != DelimiterAuto {
		c.delimiter = format.Delimiter[0]
	}
	for _, mark := range []byte("\r\n" + autoDelimiters + format.Delimiter) {
		c.marks[mark] = true
	}
	if format.Quote != NoQuote {
		c.quote = format.Quote[0]
		c.marks[c.quote], c.closing[c.quote] = true, true
	}
	return c
}

func (c *csvRows) next() (row, error) {
	if c.names == nil {
		if err := c.header(); err != nil {
			return row{}, err
		}
	}
	if err := c.record(); err != nil {
		return row{}, err
	}
	out := row{line: c.begin.line + 1, column: c.begin.column + 1, begin: c.from, end: c.to}
	if c.to < 0 {
		out.end = c.pos
	}
	switch {
	case c.long != "":
		out.fault = rowFault(offer.ReasonSchemaInvalid, "row_malformed", "", "%s", c.long)
	case c.excess != (place{}):
		out.fault = rowFault(offer.ReasonSchemaInvalid, "csv_row_width", "", "the header has %d columns, and there is something after them", len(c.names))
		out.fault.Line, out.fault.Column = c.excess.line+1, c.excess.column+1
	case len(c.ends) < len(c.names):
		out.fault = rowFault(offer.ReasonSchemaInvalid, "csv_row_width", "", "%d fields; the header has %d columns: %s is missing", len(c.ends), len(c.names), strconv.Quote(shorten(c.names[len(c.ends)])))
	default:
		texts, from := string(c.fields), 0
		value := make(map[string]any, len(c.names))
		for i, name := range c.names {
			value[name] = texts[from:c.ends[i]]
			from = c.ends[i]
		}
		out.value = value
	}
	return out, nil
}

// header reads the names of the columns.
func (c *csvRows) header() error {
	if c.delimiter == 0 {
		if err := c.detect(); err != nil {
			return err
		}
	}
	names, err := c.readNames()
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			return c.fault("csv_header_duplicate", c.begin, "two columns have the name %q; names differ by more than outer blanks", shorten(name))
		}
		seen[name] = true
	}
	for _, name := range c.format.Required {
		if !seen[name] {
			return c.fault("csv_header_missing", c.begin, "the header has no column %q, which format.required names; letter case counts", shorten(name))
		}
	}
	if len(names) == 0 {
		return c.fault("csv_header_missing", c.begin, "the first line names no column")
	}
	c.names = names
	return nil
}

// readNames reads the first record: without columns at its end that have no name.
func (c *csvRows) readNames() ([]string, error) {
	err := c.record()
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	case c.long != "":
		return nil, c.fault("csv_malformed", c.begin, "the header: %s", c.long)
	}
	names, from := make([]string, len(c.ends)), 0
	for i, end := range c.ends {
		names[i] = trim(string(c.fields[from:end]))
		from = end
	}
	for len(names) > 0 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	return names, nil
}

// detect takes the delimiter under which the header has all required columns. Nothing is counted and nothing voted: two that
// do are as good as none.
func (c *csvRows) detect() error {
	head, err := c.text.Peek(c.text.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var found []byte
	for _, delimiter := range []byte(autoDelimiters) {
		try := newCSVRows(bytes.NewReader(head), c.format)
		try.delimiter = delimiter
		names, err := try.readNames()
		if err == nil && !slices.ContainsFunc(c.format.Required, func(name string) bool { return !slices.Contains(names, name) }) {
			found = append(found, delimiter)
		}
	}
	if len(found) != 1 {
		return c.fault("csv_delimiter_ambiguous", c.at, "under %d of the delimiters comma, semicolon, tab and | the first line has the columns of format.required; name the delimiter in format.delimiter", len(found))
	}
	c.delimiter = found[0]
	return nil
}

func (c *csvRows) fault(detail string, at place, format string, args ...any) *offer.Fault {
	fault := deliveryFault(offer.ReasonSchemaInvalid, detail, format, args...)
	fault.Line, fault.Column = at.line+1, at.column+1
	return fault
}

// record reads the next record that is no blank line; io.EOF where there is none.
func (c *csvRows) record() error {
	for {
		c.from, c.to = c.pos, -1
		c.begin, c.fields, c.ends, c.quoted, c.excess, c.long = c.at, c.fields[:0], c.ends[:0], false, place{}, ""
		for {
			ended, err := c.field()
			if err != nil {
				return err
			}
			if ended {
				break
			}
		}
		if len(c.ends) > 1 || c.quoted || trim(string(c.fields)) != "" {
			return nil
		}
	}
}

// field reads one field, and reports whether it was the record's last. Its error is io.EOF where no record begins.
func (c *csvRows) field() (last bool, err error) {
	begin, from := c.at, len(c.fields)
	defer func() {
		if err == nil {
			c.close(begin, from)
		}
	}()
	b, err := c.read()
	switch {
	case errors.Is(err, io.EOF) && len(c.ends) > 0:
		return true, nil
	case err == nil && b == c.quote && c.quote != 0:
		return c.inQuotes(begin, from)
	}
	for err == nil {
		switch {
		case b == c.delimiter:
			return false, nil
		case c.endsLine(b):
			return true, nil
		case b == c.quote && c.quote != 0:
			return false, c.fault("csv_malformed", c.last, "a quote within a field that does not begin with one; quote the whole field and double the quote, or set format.quote to null")
		}
		c.put(b, from)
		c.run(from, &c.marks)
		if b, err = c.read(); errors.Is(err, io.EOF) {
			return true, nil
		}
	}
	return false, err
}

// inQuotes reads the rest of a field behind its opening quote.
func (c *csvRows) inQuotes(begin place, from int) (last bool, err error) {
	c.quoted = true
	for {
		c.run(from, &c.closing)
		b, err := c.read()
		switch {
		case errors.Is(err, io.EOF):
			return false, c.fault("csv_quote_unclosed", begin, "the quote is never closed")
		case err != nil:
			return false, err
		case b != c.quote:
			c.put(b, from)
			continue
		}
		b, err = c.read()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, err
		case b == c.quote:
			c.put(b, from)
		case b == c.delimiter:
			return false, nil
		case c.endsLine(b):
			return true, nil
		default:
			return false, c.fault("csv_malformed", c.last, "something between a closing quote and the next delimiter; double a quote that is part of the field")
		}
	}
}

// read returns the next byte; last is where it stands.
func (c *csvRows) read() (byte, error) {
	b, err := c.text.ReadByte()
	if err != nil {
		return 0, err
	}
	c.last = c.at
	c.pos++
	c.advance(b)
	return b, nil
}

func (c *csvRows) advance(b byte) {
	switch {
	case b == '\n':
		c.at = place{line: c.at.line + 1}
	case utf8.RuneStart(b):
		c.at.column++
	}
}

// endsLine reports whether a byte that was read ends the line, with the LF after a CR. A CR alone is text.
func (c *csvRows) endsLine(b byte) bool {
	if b != '\r' && b != '\n' {
		return false
	}
	end := c.pos - 1
	if b == '\r' {
		next, _ := c.text.Peek(1) // an error comes again
		if len(next) > 0 && next[0] != '\n' {
			return false
		}
		if len(next) > 0 {
			_, _ = c.read()
		}
	}
	c.to = end
	return true
}

// put adds a byte to the field that begins at from. What is too long is read on and not kept.
func (c *csvRows) put(b byte, from int) {
	switch {
	case c.long != "":
	case len(c.fields)-from == maxFieldBytes:
		c.long = fmt.Sprintf("field %d has more than %d bytes", len(c.ends)+1, maxFieldBytes)
	case len(c.fields) == maxRowBytes:
		c.long = fmt.Sprintf("the fields have more than %d bytes together", maxRowBytes)
	default:
		c.fields = append(c.fields, b)
	}
}

// run adds what is ahead of the next mark, as far as it is at hand.
func (c *csvRows) run(from int, marks *[256]bool) {
	ahead, _ := c.text.Peek(c.text.Buffered()) // as much as is there
	n := 0
	for ; n < len(ahead) && !marks[ahead[n]]; n++ {
		c.advance(ahead[n])
	}
	run := ahead[:n]
	room := max(min(maxFieldBytes-(len(c.fields)-from), maxRowBytes-len(c.fields)), 0)
	if c.long == "" {
		c.fields = append(c.fields, run[:min(n, room)]...)
		if n > room {
			c.put(run[room], from)
		}
	}
	_, _ = c.text.Discard(n)
	c.pos += int64(n)
}

// close ends the field that begins at from.
func (c *csvRows) close(begin place, from int) {
	switch {
	case c.names != nil && len(c.ends) == len(c.names):
		if trim(string(c.fields[from:])) != "" && c.excess == (place{}) {
			c.excess = begin
		}
		c.fields = c.fields[:from]
	case len(c.ends) == maxColumns:
		c.long = fmt.Sprintf("more than %d columns", maxColumns)
		c.fields = c.fields[:from]
	default:
		c.ends = append(c.ends, len(c.fields))
	}
}
