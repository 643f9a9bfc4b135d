package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/streams"
)

func (a *app) designCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "design",
		Short: "Print what is kept, where outcomes become true, and what a timeout leaves at each arrow",
		Long: "Prints the four kinds of record and what names one, the one transaction, and for each step what is left where the process dies\n" +
			"after it or its answer is lost, and who goes on.",
		Example: "  offerlog design\n  offerlog design --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return show(a, "", []design{{streams.Boxes, streams.Transaction, streams.Arrows}}, nil)
			}
			err := show(a, "BOX\tID\tHOLDS", streams.Boxes, func(b streams.Box) string { return cells(b.Name, b.ID, b.Holds) })
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "\ntransaction: %s\n\n", streams.Transaction)
			return show(a, "AFTER\tIS LEFT\tWHO GOES ON", streams.Arrows, func(r streams.Arrow) string { return cells(r.After, r.Left, r.Next) })
		},
	}
}

// A design is what offerlog design prints.
type design struct {
	Boxes       []streams.Box   `json:"boxes"`
	Transaction string          `json:"transaction"`
	Arrows      []streams.Arrow `json:"arrows"`
}
