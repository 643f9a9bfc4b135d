package main

import (
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/postgres"
)

func (a *app) observationsCommand() *cobra.Command {
	var (
		f   history.Filter
		key string
	)
	cmd := &cobra.Command{
		Use:   "observations",
		Short: "Print what sources have claimed, the newest of each offer first",
		Long: "Prints the history of offers: every observation, also those that never won or were overtaken. --delivery shows those\n" +
			"that a delivery was the first to state, and those that it restated.",
		Example: "  offerlog observations --record AX-440-R2\n  offerlog observations --delivery demo/acme-eu/ACC-1/%2Facme-eu%2Fexport/EXP-8822 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			if key != "" {
				id, err := parseDelivery(key)
				if err != nil {
					return err
				}
				f.Delivery = &id
			}
			var documents []history.Document
			err := a.asTenant(cmd.Context(), postgres.Read, func(tx pgx.Tx) error {
				observations, err := history.List(cmd.Context(), tx, f)
				for i := range observations {
					documents = append(documents, observations[i].Document())
				}
				return err
			})
			if err != nil {
				return err
			}
			a.atMost(len(documents), f.Limit)
			return show(a, "ACCOUNT\tRECORD\tVERSION\tOBSERVED\tQUANTITY\tPRICE\tPER\tDELETED\tRECORDED\tOBSERVATION", documents, observationCells)
		},
	}
	cmd.Flags().StringVar(&f.Account, "account", "", "only of this supplier account")
	cmd.Flags().StringVar(&f.Record, "record", "", "only of the one that the supplier calls so")
	cmd.Flags().StringVar(&key, "delivery", "", "only of this delivery: its replay key or its id")
	cmd.Flags().IntVar(&f.Limit, "limit", 1000, "at most so many")
	return cmd
}

func observationCells(d history.Document) string {
	deleted := ""
	if d.Deleted {
		deleted = "deleted"
	}
	return cells(d.Account, d.Record, d.Version, second(d.ObservedAt), d.Quantity.String(), money(d.Content), per(d.Basis), deleted,
		second(d.RecordedAt), d.ObservationID)
}
