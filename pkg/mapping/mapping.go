// Package mapping reads payloads: from a delivery's bytes to rows in normal form, exactly, whatever the bytes are.
//
// It keeps no table. A Spec says how a feed's payloads are read, Compile checks it and makes a Program, and Program.Map
// reads one delivery. Ingest runs programs through a Child: a pool of processes of this same binary, each with an
// address-space limit and a deadline for each delivery, so that no payload and no mapping can take ingest down. A
// delivery that its process dies of is answered with the fault mapping_limit; its neighbours are not touched.
//
// # Numbers
//
// No number goes through a binary float on its way. JSON numbers stay their literal text through jq, and the jq dialect
// lacks what would turn one into a float. Compile refuses number literals with a fraction or an exponent, division,
// tonumber, add and the functions of floating mathematics; it refuses + - * % where a look at the operands shows a number
// that is no integer constant or length. Because jq has no types, the rest is caught when it happens: + - * % on a number
// with a fraction is an error, and a float that reaches any field of an observation is one too. Both name the functions
// to write instead, which take numbers and number texts (read with the feed's marks) and keep every digit:
//
//	dec(x)             the number itself
//	dadd(x; y)         x + y
//	dsub(x; y)         x - y
//	dmul(x; y)         x * y
//	ddiv(x; y)         x / y, an error where the quotient does not end; ddiv(x; y; places) rounds it
//	dround(x; places)  x with so many digits after the point, halves away from zero
//
// An absent argument (null or a null token) gives null. Constants are written as texts: dmul(.price; "1.19"),
// dec(.price) > dec("0.5"). Comparisons (== < sort min) of jq look at no more than the 17 digits of a double; they choose,
// but never change, a number.
//
// # What a mapping may know
//
// The row as ., and the event's attributes as $ce, all texts. When a delivery arrived, and what its trace is, is not
// among them: neither may decide what a claim says or which claim is newer. Nothing else is visible: no clock, no
// environment, no files, no other rows. So a payload read again is read the same.
//
// # Fingerprints
//
// A fingerprint's canonicalization is bytes/1, json/1 or rows/1, followed by the attributes that the mapping reads, each
// after a plus sign: json/1+sequence+subject. Where an expression uses $ce as a whole it is json/1+*, which covers all
// attributes but id, source, type, specversion, datacontenttype and time. It says all that is needed to compute the
// fingerprint again, also after the feed has got another mapping.
package mapping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A Request is one delivery to read.
type Request struct {
	Spec             offer.Digest // of the Spec to read it under
	Payload          []byte
	Path             string // of the file that the payload is, in place of Payload
	Length           int64  // of a payload that is not in Payload, in bytes
	HasData          bool   // an event without data differs from one with zero bytes of it
	ContentType      string // of the payload; its charset counts, and that it is a gzip or zstd
	Attributes       map[string]string
	EventTime        offer.Time // observed_at, unless the mapping gives one
	Canonicalization string     // for the fingerprint, as an earlier receipt has it; "": the spec's own

	chunked bool // it is answered with chunks of rows before the result
}

// A Result is what one delivery says.
type Result struct {
	// Fault says why the delivery as a whole cannot be taken: nil where it can.
	Fault *offer.Fault
	// Fingerprint is always set. A payload that has no canonical form, and an unknown Canonicalization, get bytes/1.
	Fingerprint offer.Fingerprint
	RowCount    int
	Rows        []offer.Row   // valid ones, by number; of equal ones the first
	Repeated    int           // rows equal to an earlier one of the delivery
	Rejected    []offer.Fault // by row
}

// Map reads one delivery. Its error is ctx's; whatever is wrong with the delivery is in the Result.
func (p *Program) Map(ctx context.Context, r *Request) (Result, error) {
	var rows []offer.Row
	var rejected []offer.Fault
	stated := newRevisions(1)
	res, err := p.read(ctx, r, func(in *row, out *offer.Row, fault *offer.Fault) error {
		if fault != nil {
			rejected = append(rejected, *fault)
		} else {
			rows = append(rows, *out)
			stated.add(in, out)
		}
		return nil
	})
	if err != nil || res.Fault != nil {
		return res, err
	}
	res.Rows, res.Rejected = rows, rejected
	res.settle(stated)
	res.Fault = res.nothingLeft(len(res.Rows), len(res.Rejected))
	return res, nil
}

// read reads one delivery row by row: each, with its number, is emitted in normal form, or as the fault that rejects it. The
// Result has neither. With a Fault what has been emitted does not count. Its error is emit's, ctx's or that of a file.
func (p *Program) read(ctx context.Context, r *Request, emit func(*row, *offer.Row, *offer.Fault) error) (res Result, err error) {
	form := p.fingerprinter(r)
	err = p.eachRow(ctx, r, form.document, func(number int, in *row, ce map[string]any) error {
		res.RowCount = number
		form.row(in)
		out, fault := p.mapRow(ctx, in, ce, r.EventTime)
		if fault != nil {
			fault.Row, fault.Line, fault.Column = number, cmp.Or(fault.Line, in.line), cmp.Or(fault.Column, in.column)
		}
		out.Number = number
		return emit(in, &out, fault)
	})
	if res.Fault = faultOf(err); res.Fault != nil {
		res.RowCount, err = 0, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		res.Fingerprint, err = form.sum(r, res.Fault)
	}
	return res, err
}

// eachRow hands the rows of a delivery to f, until the first error.
func (p *Program) eachRow(ctx context.Context, r *Request, canonical io.Writer, f func(number int, in *row, ce map[string]any) error) error {
	switch {
	case r.HasData:
	case p.spec.NoData == NoDataRefuse:
		return deliveryFault(offer.ReasonSchemaInvalid, "data_missing", "the event has no data; a feed whose events may lack it sets no_data: map")
	default:
		return f(1, &row{}, p.visible(r.Attributes))
	}
	payload, err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = payload.Close() }()
	text, err := p.text(r, payload)
	if err != nil {
		return err
	}
	err = p.eachOf(ctx, p.newReader(ctx, text, canonical), p.visible(r.Attributes), f)
	if faultOf(err) != nil {
		// What is wrong with the bytes counts before what they say, however far that was read.
		if _, worse := io.Copy(io.Discard, text); worse != nil {
			err = worse
		}
	}
	return err
}

func (p *Program) eachOf(ctx context.Context, rows reader, ce map[string]any, f func(int, *row, map[string]any) error) error {
	for number := 1; ; number++ {
		in, err := rows.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case number > p.spec.Limits.MaxRows:
			return deliveryFault(offer.ReasonMappingLimit, "", "more than %d rows; send them in several deliveries, or raise limits.max_rows", p.spec.Limits.MaxRows)
		}
		if err := f(number, &in, ce); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// mapRow maps one row.
func (p *Program) mapRow(ctx context.Context, in *row, ce map[string]any, eventTime offer.Time) (offer.Row, *offer.Fault) {
	if in.fault != nil {
		return offer.Row{}, in.fault
	}
	claim, fault := p.observe(ctx, in.value, ce)
	if fault != nil {
		return offer.Row{}, fault
	}
	return p.normalise(claim, eventTime)
}

// settle leaves one row of each revision that a delivery states.
func (res *Result) settle(stated *revisions) {
	left := newRowSet(res.RowCount)
	stated.settle(func(s *statement) {
		res.Repeated++
		left.add(int(s.row))
	}, func(s *statement) {
		res.Rejected = append(res.Rejected, *s.contradicted())
		left.add(int(s.row))
	})
	res.Rows = slices.DeleteFunc(res.Rows, func(r offer.Row) bool { return left.has(r.Number) })
	res.keepFirst(len(res.Rejected))
}

// keepFirst sorts the rejected rows and keeps at most so many.
func (res *Result) keepFirst(n int) {
	slices.SortFunc(res.Rejected, func(a, b offer.Fault) int { return cmp.Compare(a.Row, b.Row) })
	res.Rejected = res.Rejected[:min(n, len(res.Rejected))]
}

// nothingLeft is the fault of a delivery of which no row is left, and so many were rejected.
func (res *Result) nothingLeft(left, rejected int) *offer.Fault {
	switch {
	case res.RowCount == 0 || left > 0:
		return nil
	case rejected == 1:
		fault := res.Rejected[0]
		return &fault
	}
	return deliveryFault(offer.ReasonSchemaInvalid, "all_rows_rejected", "each of the %d rows was rejected; the first: %v", rejected, &res.Rejected[0])
}

// hidden are the attributes that no mapping sees: when, on which way and from where a delivery came says nothing about its
// claims.
var hidden = []string{"datadigest", "dataref", "recordedtime", "traceparent", "tracestate"}

// visible is $ce.
func (p *Program) visible(attributes map[string]string) map[string]any {
	ce := make(map[string]any, len(attributes))
	for name, value := range attributes {
		if !slices.Contains(hidden, name) {
			ce[name] = value
		}
	}
	return ce
}

func deliveryFault(reason, detail, format string, args ...any) *offer.Fault {
	return &offer.Fault{Reason: reason, Detail: detail, Message: fmt.Sprintf(format, args...)}
}

func rowFault(reason, detail, path, format string, args ...any) *offer.Fault {
	return &offer.Fault{Reason: reason, Detail: detail, Path: path, Message: fmt.Sprintf(format, args...)}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
