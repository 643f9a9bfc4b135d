package main

import (
	"time"

	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
)

func (a *app) itemCommand() *cobra.Command {
	var (
		mpn   string
		limit int
	)
	list := &cobra.Command{
		Use:     "list",
		Short:   "Print the items of which there are offers",
		Long:    "Part number, manufacturer, revision, packaging, condition and GTIN make an item: the same part on a reel and as cut tape is two.",
		Example: "  offerlog item list\n  offerlog item list --mpn AX-440-R2 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			items, err := a.items(cmd.Context(), mpn, limit)
			if err != nil {
				return err
			}
			a.atMost(len(items), limit)
			return show(a, "MPN\tMANUFACTURER\tREVISION\tPACKAGING\tCONDITION\tGTIN\tOFFERS\tACCOUNTS", items, func(d view.ItemDocument) string {
				return cells(append(d.Item.Fields(), decimal(int64(d.Offers)), decimal(int64(d.Accounts)))...)
			})
		},
	}
	list.Flags().StringVar(&mpn, "mpn", "", "only of this part number")
	list.Flags().IntVar(&limit, "limit", 1000, "at most so many")
	return group("item", "Look at items, compare what is offered of them, and correct which one an offer is of", list, a.compareCommand(),
		a.linkCommand("link", streams.ItemLinkType, "Say which item an offer is of",
			"What claims say of the item, now and later, means another from now on: the flags change its parts, those that are left out stay.\n"+
				"Nothing that was claimed changes; the offer shows both, and unlink takes it back."),
		a.linkCommand("unlink", streams.ItemUnlinkType, "Have an offer be of the item again that its claims say", ""))
}

func (a *app) items(ctx context.Context, mpn string, limit int) (items []view.ItemDocument, err error) {
	err = a.asTenant(ctx, postgres.Read, func(tx pgx.Tx) error {
		items, err = view.Items(ctx, tx, mpn, limit)
		return err
	})
	return items, err
}

// parts are the flags that name parts of an item.
func parts(cmd *cobra.Command, i *offer.Item) {
	cmd.Flags().StringVar(&i.MPN, "mpn", "", "the manufacturer's part number")
	cmd.Flags().StringVar(&i.Manufacturer, "manufacturer", "", "the manufacturer")
	cmd.Flags().StringVar(&i.Revision, "revision", "", "the revision")
	cmd.Flags().StringVar(&i.Packaging, "packaging", "", "the packaging unit, such as reel")
	cmd.Flags().StringVar(&i.Condition, "condition", "", "the condition, such as new")
	cmd.Flags().StringVar(&i.GTIN, "gtin", "", "the GTIN, 14 digits")
}

// A comparison is the offers of one item, side by side: nothing is merged.
type comparison struct {
	Item   offer.Item      `json:"item"`
	Offers []view.Document `json:"offers"`
}

func (a *app) compareCommand() *cobra.Command {
	var wanted offer.Item
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Print the offers of one item side by side",
		Long: "Each offer stands for itself: prices are not merged, and no quantity is confirmed stock. The flags name the item; as much as tells it\n" +
			"from others will do.",
		Example: "  offerlog item compare --mpn AX-440-R2 --packaging reel\n  offerlog item compare --gtin 04012345678901 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := a.items(cmd.Context(), wanted.MPN, maxItems)
			if err != nil {
				return err
			}
			items = slices.DeleteFunc(items, func(d view.ItemDocument) bool { return !matches(d.Item, wanted) })
			switch len(items) {
			case 0:
				return &exitError{exitNotFound, "no_item", "run offerlog item list for those that there are", fmt.Errorf("there is no offer of such an item")}
			case 1:
			default:
				return usage("name more of its parts: offerlog item list shows them", "%d items are like that", len(items))
			}
			c := comparison{Item: items[0].Item}
			err = a.asTenant(cmd.Context(), postgres.Read, func(tx pgx.Tx) (err error) {
				c.Offers, err = view.Offers(cmd.Context(), tx, view.Filter{Of: &c.Item, Now: time.Now()})
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return show(a, "", []comparison{c}, nil)
			}
			return show(a, "ACCOUNT\tRECORD\tQUANTITY\tPRICE\tPER\tMOQ\tOBSERVED\tVERIFICATION", c.Offers, func(o view.Document) string {
				return cells(o.Account, o.Record, o.Quantity.String(), money(o.Content), per(o.Basis), o.MOQ.String(), second(o.ObservedAt), o.Verification)
			})
		},
	}
	parts(cmd, &wanted)
	return cmd
}

// maxItems bounds how many items compare looks through.
const maxItems = 10_000

// matches reports whether an item has the parts that are wanted.
func matches(i, wanted offer.Item) bool {
	have := i.Fields()
	for n, part := range wanted.Fields() {
		if part != "" && part != have[n] {
			return false
		}
	}
	return true
}

// linkCommand is a command that publishes a decision on the item of an offer, as its newest claim says it.
func (a *app) linkCommand(verb, kind, short, long string) *cobra.Command {
	var changed offer.Item
	cmd := &cobra.Command{
		Use:     verb + " ACCOUNT RECORD",
		Short:   short,
		Long:    long,
		Example: "  offerlog item " + verb + " ACC-1 EXP-1",
		Args:    cobra.ExactArgs(2),
	}
	if kind == streams.ItemLinkType {
		cmd.Example += " --mpn AX-440-R2 --manufacturer Axon"
		parts(cmd, &changed)
	}
	cmd.Example += " --reason \"ticket 4411\""
	return a.decisionCommand(cmd, func(ctx context.Context, args []string) (string, any, error) {
		link := ingest.ItemLink{Account: args[0], Record: args[1]}
		err := a.asTenant(ctx, postgres.Read, func(tx pgx.Tx) error {
			said, err := history.List(ctx, tx, history.Filter{Account: link.Account, Record: link.Record, Limit: maxItems})
			if i := slices.IndexFunc(said, func(o history.Observation) bool { return o.Content.Item != offer.Item{} }); err == nil && i >= 0 {
				link.Was = said[i].Content.Item
				return nil
			}
			if err == nil {
				err = &exitError{exitNotFound, "no_item", "run offerlog observations for what there is", fmt.Errorf("account %q has no record %q with an item", link.Account, link.Record)}
			}
			return err
		})
		if kind == streams.ItemLinkType {
			link.Item = link.Was
			link.Item.Change(changed)
		}
		return kind, link, err
	}, a.showCommand)
}
