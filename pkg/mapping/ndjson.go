package mapping

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/offerlog/offerlog/pkg/offer"
)

// maxRowBytes bounds a row where rows are lines, since a row is read as a whole.
const maxRowBytes = 16 << 20

// ndjsonRows are the lines that are not blank, each a JSON document. A line that is none is a row that cannot be read.
type ndjsonRows struct {
	text *bufio.Reader
	json *jsonReader
	long []byte // a line that did not fit the buffer of text
	line int
	pos  int64 // of the next line's first byte
}

func newNDJSONRows(text io.Reader, maxDepth int) *ndjsonRows {
	return &ndjsonRows{text: buffered(text), json: newJSONReader(new(bytes.Buffer), maxDepth)}
}

func (r *ndjsonRows) next() (row, error) {
	for {
		begin := r.pos
		text, err := r.read()
		r.line++
		ended := errors.Is(err, io.EOF)
		switch {
		case err != nil && !ended:
			return row{}, err
		case len(text) > maxRowBytes:
			fault := rowFault(offer.ReasonSchemaInvalid, "row_malformed", "", "the line has more than %d bytes", maxRowBytes)
			return row{line: r.line, column: 1, fault: fault}, nil
		case len(bytes.Trim(text, " \t\r\n")) > 0:
			return r.row(text, begin), nil
		case ended:
			return row{}, io.EOF
		}
	}
}

// row reads a line that begins at begin.
func (r *ndjsonRows) row(text []byte, begin int64) row {
	text = bytes.TrimRight(text, "\r\n")
	r.json.reset(text)
	blanks := len(text) - len(bytes.TrimLeft(text, " \t\r"))
	out := row{line: r.line, column: 1 + blanks, begin: begin + int64(blanks), end: begin + int64(len(text))}
	value, err := r.json.document()
	if err != nil {
		out.fault = faultOf(err)
		out.fault.Line += r.line - 1
		if out.fault.Detail == "payload_malformed" {
			out.fault.Detail = "row_malformed"
		}
		return out
	}
	out.value = value
	return out
}

// read reads one line, of a longer one than maxRowBytes a byte more. It stands until the next call.
func (r *ndjsonRows) read() ([]byte, error) {
	text, err := r.text.ReadSlice('\n')
	r.pos += int64(len(text))
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	r.long = append(r.long[:0], text...)
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = r.text.ReadSlice('\n')
		r.pos += int64(len(text))
		r.long = append(r.long, text[:min(len(text), maxRowBytes+1-len(r.long))]...)
	}
	return r.long, err
}
