package mapping

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A row is one row of a document, before its mapping.
type row struct {
	value        any   // what the mapping sees as .: nil, bool, json.Number, string, []any or map[string]any
	line, column int   // where it begins in the text, from 1; 0: not known
	begin, end   int64 // the bytes of the text that it is; both 0: not known
	// fault says why the row cannot be read. The rows after it can: a fault that ends the document is next's error.
	fault *offer.Fault
}

// A reader yields the rows of one document in order, one at a time and with no more memory than a few rows need, so that
// the size of a document does not count. It never yields more rows than the text has bytes.
type reader interface {
	// next reads the next row. After the last its error is io.EOF; any other ends the document: a *offer.Fault, with line and
	// column where they are known, or what reading the text failed with, which the caller tells apart by errors.As.
	next() (row, error)
}

// newReader is the reader for the kind of the feed's format. text is UTF-8 without a mark, whatever the payload was in: an
// XML declaration that names another encoding has been followed by then. Canonical, where it is not nil, gets the json/1 of
// the whole document.
func (p *Program) newReader(ctx context.Context, text io.Reader, canonical io.Writer) reader {
	switch p.spec.Format.Kind {
	case KindNDJSON:
		return newNDJSONRows(text, p.spec.Limits.MaxDepth)
	case KindCSV:
		return newCSVRows(text, &p.spec.Format)
	case KindXML:
		return newXMLReader(text, p.path, p.spec.Limits.MaxDepth, p.spec.Format.Doctype == DoctypeName)
	default:
		return newJSONRows(ctx, p, text, canonical)
	}
}

// buffered reads ahead in a text, no more than there is.
func buffered(text io.Reader) *bufio.Reader {
	size := readAhead
	if whole, ok := text.(*bytes.Buffer); ok {
		size = min(whole.Len(), size)
	}
	return bufio.NewReaderSize(text, size)
}

// faultOf is the fault that an error is, nil where it is none.
func faultOf(err error) *offer.Fault {
	fault, _ := errors.AsType[*offer.Fault](err)
	return fault
}
