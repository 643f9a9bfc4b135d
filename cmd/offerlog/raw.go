package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/view"
)

// A rawRow is the row of a payload that an observation was read from.
type rawRow struct {
	mapping.Span
	Text string `json:"text"` // the bytes, which are UTF-8
}

// raw reads the row of the shown candidate again, from the archive.
func (a *app) raw(ctx context.Context, x *explanation) (*candidate, error) {
	var shown *candidate
	for i := range x.Candidates {
		if x.Candidates[i].Rule == view.RuleWins {
			shown = &x.Candidates[i]
		}
	}
	noRow := func(code, hint, format string, args ...any) error {
		return &exitError{exitNotFound, code, hint, fmt.Errorf(format, args...)}
	}
	switch {
	case shown == nil:
		return nil, noRow("nothing_shown", "offerlog explain without --raw says why", "no observation of %q in account %q is shown", x.Record, x.Account)
	case shown.Row == 0:
		return nil, noRow("no_row", "offerlog explain without --raw names its run", "the deletion of %q is one that a complete snapshot implies: no row states it", x.Record)
	case shown.Receipt == nil:
		return nil, noRow("no_receipt", "what is known of the observation is in offerlog explain without --raw", "the receipt of delivery %s has expired, which says where its payload lies", shown.Delivery)
	case shown.Receipt.Artifact == nil:
		return nil, noRow("no_payload", "offerlog deliveries says what became of it", "delivery %s has no payload of its own", shown.Delivery)
	}
	var spec mapping.Spec
	find := func(tx pgx.Tx) (_ *receipt.Evidence, err error) {
		spec, err = feed.ReadingOf(ctx, tx, a.settings.Tenant, shown.Feed, shown.MappingVersion)
		return shown.Receipt.Artifact, err
	}
	var (
		program *mapping.Program
		request mapping.Request
		found   = &rawRow{}
	)
	// The payload is read twice: its size does not count then, and no byte of it is shown before all of it is verified.
	err := a.readEvidence(ctx, find, func(c *archive.Content) error {
		ev, err := delivery.FromEnvelope(c.Envelope, nil)
		if err != nil {
			return err
		}
		if program, err = mapping.Compile(spec); err != nil {
			return err
		}
		request = mapping.Request{Length: c.Length, ContentType: ev.ContentType}
		if found.Span, err = program.Span(ctx, &request, c, shown.Row); errors.Is(err, mapping.ErrNoSpan) {
			return noRow("no_span", "offerlog artifact get "+shown.Receipt.ReplayKey+" writes the whole payload", "delivery %s: %w", shown.Receipt.ReplayKey, err)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = a.readEvidence(ctx, find, func(c *archive.Content) error {
		row, err := program.Cut(&request, c, found.Span)
		found.Text = string(row)
		return err
	})
	shown.Raw = found
	return shown, err
}
