package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
)

func (a *app) offersCommand() *cobra.Command {
	var (
		f     view.Filter
		p     past
		limit int
		after string
	)
	cmd := &cobra.Command{
		Use:   "offers",
		Short: "Print the current offers, or those of another time",
		Long: "Prints each offer as it now stands. What an offer says is its source's claim: nothing here is confirmed stock.\n\n" +
			"With --known-at, by what was recorded by then: a recorded moment at or before it, which the answer names. Once a later one\n" +
			"is recorded the answer is closed and never changes. With --as-of, by claims that were true by then. Both together: what\n" +
			"somebody could have known then of the world as it was.\n\n" +
			"With --limit a page of them, in no order that means anything, and the place to read on from with --after: on standard error, or\n" +
			"with --json as \"next\" of a last line that also names the generation of the view and its manifest. All pages are of that\n" +
			"generation, whichever one others see by then; when it is retired the next page is refused (exit code 6).",
		Example: "  offerlog offers --item AX-440\n  offerlog offers --limit 1000 --json\n  offerlog offers --account ACC-1 --record AX-440-R2 --json\n  offerlog offers --all\n" +
			"  offerlog offers --known-at 2026-03-01T08:00:00Z --as-of 2026-02-28T00:00:00Z",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			paged := cmd.Flags().Changed("limit") || after != ""
			if paged && p.asked() {
				return usage("leave them out", "the past is not read in pages: --limit and --after")
			}
			if p.asked() {
				return a.showKnown(cmd.Context(), f, p)
			}
			f.Now = time.Now()
			if paged {
				f.Limit = limit
				return a.showPage(cmd.Context(), f, after)
			}
			var offers []view.Document
			err := a.asTenant(cmd.Context(), postgres.Read, func(tx pgx.Tx) (err error) {
				offers, err = view.Offers(cmd.Context(), tx, f)
				return err
			})
			if err != nil {
				return err
			}
			return show(a, offerHead, offers, offerCells)
		},
	}
	cmd.Flags().StringVar(&f.Account, "account", "", "only of this supplier account")
	cmd.Flags().StringVar(&f.Record, "record", "", "only the one that the supplier calls so")
	cmd.Flags().StringVar(&f.Item, "item", "", "only of this manufacturer's part number")
	cmd.Flags().BoolVar(&f.IncludeDeleted, "all", false, "deleted ones too")
	cmd.Flags().IntVar(&limit, "limit", 1000, "a page of at most so many; without it and --after: all")
	cmd.Flags().StringVar(&after, "after", "", "the page after this place, as the page before has told it")
	p.flags(cmd)
	cmd.AddCommand(a.gapsCommand(), a.shownCommand())
	return cmd
}

// A pageEnd is the last line of a page, for programs.
type pageEnd struct {
	Generation int            `json:"generation"`
	Next       string         `json:"next,omitempty"` // "": the page is the last
	Manifest   *view.Manifest `json:"manifest,omitempty"`
}

// showPage prints a page of offers, and where the next one begins.
func (a *app) showPage(ctx context.Context, f view.Filter, after string) error {
	if err := checkLimit(f.Limit); err != nil {
		return err
	}
	var (
		at  view.Cursor
		err error
	)
	if after != "" {
		if at, err = view.ParseCursor(after); err != nil {
			return usage("take it from the page before", "--after: %w", err)
		}
	}
	var (
		page view.Page
		end  pageEnd
	)
	err = a.asTenant(ctx, postgres.Read, func(tx pgx.Tx) (err error) {
		if after == "" {
			if at.Generation, err = view.Active(ctx, tx); err != nil {
				return err
			}
		}
		if page, err = view.PageOf(ctx, tx, f, at); err != nil {
			return err
		}
		end = pageEnd{Generation: at.Generation}
		if page.Next != nil {
			end.Next = page.Next.String()
		}
		end.Manifest, err = view.ManifestOf(ctx, tx, at.Generation)
		return err
	})
	if errors.Is(err, view.ErrGone) {
		return &exitError{exitStale, "generation_gone", "begin again, without --after", err}
	}
	if err != nil {
		return err
	}
	if err := show(a, offerHead, page.Offers, offerCells); err != nil {
		return err
	}
	if a.json {
		return show(a, "", []struct {
			Page pageEnd `json:"page"`
		}{{end}}, nil)
	}
	if end.Next != "" {
		fmt.Fprintf(a.stderr, "note: more with --after %s\n", end.Next)
	}
	return nil
}

const offerHead = "ACCOUNT\tRECORD\tMPN\tMANUFACTURER\tQUANTITY\tPRICE\tPER\tOBSERVED\tREV\tFLAGS"

func (a *app) gapsCommand() *cobra.Command {
	var f history.Filter
	cmd := &cobra.Command{
		Use:   "gaps",
		Short: "Print versions that are missing",
		Long: "Prints the versions that are missing between two that are known, of feeds with sequential: true. Without a record it reads all\n" +
			"history of the tenant.",
		Example: "  offerlog offers gaps\n  offerlog offers gaps --record AX-440-R2 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var gaps []history.Gap
			err := a.asTenant(cmd.Context(), postgres.Read, func(tx pgx.Tx) (err error) {
				gaps, err = history.Gaps(cmd.Context(), tx, f)
				return err
			})
			if err != nil {
				return err
			}
			a.atMost(len(gaps), f.Limit)
			return show(a, "ACCOUNT\tRECORD\tFEED\tMISSING", gaps, func(g history.Gap) string { return cells(g.Account, g.Record, g.Feed, g.String()) })
		},
	}
	cmd.Flags().StringVar(&f.Account, "account", "", "only of this supplier account")
	cmd.Flags().StringVar(&f.Record, "record", "", "only the one that the supplier calls so")
	cmd.Flags().IntVar(&f.Limit, "limit", 1000, "at most so many")
	return cmd
}

func offerCells(o view.Document) string {
	flags := o.Flags
	if o.FreshnessGap != nil {
		flags = append([]string{"freshness_gap"}, flags...)
	}
	if o.Deleted {
		flags = append([]string{"deleted"}, flags...)
	}
	return cells(o.Account, o.Record, o.Item.MPN, o.Item.Manufacturer, o.Quantity.String(), money(o.Content), per(o.Basis), second(o.ObservedAt),
		decimal(o.Revision), strings.Join(flags, " "))
}

// money is a price with its currency, as texts.
func money(c offer.Content) string {
	return strings.TrimSpace(c.Price.String() + " " + c.Currency)
}

// per is what a price is for.
func per(b offer.Basis) string {
	return strings.TrimSpace(b.Per.String() + " " + b.Unit)
}
