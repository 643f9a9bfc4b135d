package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/offerlog/offerlog/pkg/dataref"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
)

// fetchAll fetches the data that events name. It stays until the batch is stored or dropped, also where the batch is read
// again; but under a feed that allows other hosts it is fetched again, as its right to be is another.
func (w *worker) fetchAll(ctx context.Context, b *batch) error {
	for _, e := range b.events {
		if e.ref != nil && e.data != nil && e.dataFrom == nil {
			continue // it is evidence
		}
		wanted := e.feed != nil && e.key != nil && e.byReference()
		e.unread = wanted && e.fault != nil
		if e.data != nil && wanted && !e.unread && slices.Equal(e.dataFrom, e.feed.DataHosts) {
			continue
		}
		if !wanted && e.data == nil {
			continue // also where it is large: it stays spooled
		}
		e.discard()
		if !wanted || e.unread {
			continue
		}
		var err error
		e.dataFrom = e.feed.DataHosts
		if e.data, e.fault, err = w.fetch(ctx, e); err != nil {
			return &spoolError{err}
		}
		e.unread = e.fault != nil
	}
	return nil
}

func (w *worker) fetch(ctx context.Context, e *event) (*dataref.File, *offer.Fault, error) {
	if w.cfg.Fetcher == nil {
		return nil, &offer.Fault{Reason: offer.ReasonDatarefForbidden, Message: "this installation fetches no data"}, nil
	}
	attributes := e.item.Event.Attributes
	return w.cfg.Fetcher.Fetch(ctx, dataref.Ref{Tenant: e.tenant, Hosts: e.feed.DataHosts, URI: attributes[delivery.Dataref], Digest: attributes[delivery.Datadigest]})
}

// A spooled event is a large one that has been mapped: its rows lie in a file. It is read again only where it would be read
// otherwise.
type spooled struct {
	reading offer.Digest // that it was read under
	asked   string       // canonicalization
	result  mapping.Result
	rows    *mapping.Spool // nil: it has a fault
}

// spool maps a large event.
func (w *worker) spool(ctx context.Context, e *event) error {
	if s := e.spooled; s == nil || s.reading != e.feed.ReadingDigest || s.asked != e.asked {
		e.closeSpool()
		result, rows, err := w.mapper.Spool(ctx, e.feed.Reading, e.request(), w.cfg.Spool)
		if _, local := errors.AsType[*fs.PathError](err); local {
			return &spoolError{err}
		}
		if err != nil {
			return fmt.Errorf("map a large delivery: %w", err)
		}
		e.spooled = &spooled{e.feed.ReadingDigest, e.asked, result, rows}
	}
	e.take(e.spooled.result)
	return nil
}

func (e *event) closeSpool() {
	if e.spooled != nil && e.spooled.rows != nil {
		_ = e.spooled.rows.Close() // it was only read
	}
	e.spooled = nil
}

// rows yields the valid rows of the event in their order, some at a time, as often as it is asked.
func (e *event) rows() iter.Seq2[[]offer.Row, error] {
	if e.spooled != nil && e.spooled.rows != nil {
		if e.corrects() && e.ref.Row > 0 {
			return oneOf(e.spooled.rows.Chunks(), e.ref.Row)
		}
		return e.spooled.rows.Chunks()
	}
	return func(yield func([]offer.Row, error) bool) { yield(e.mapped.Rows, nil) }
}

// discard removes what was fetched and spooled for the batch.
func (b *batch) discard() {
	for _, e := range b.events {
		e.discard()
	}
}

func (e *event) discard() {
	e.closeSpool()
	if e.data != nil {
		_ = e.data.Remove() // what stays goes with the folder
		e.data = nil
	}
}

// A spoolError says that large data has no place: nothing may be stored, and the batch is tried again.
type spoolError struct{ err error }

func (e *spoolError) Error() string { return e.err.Error() }
func (e *spoolError) Unwrap() error { return e.err }
