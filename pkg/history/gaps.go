package history

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

//go:embed gaps.sql
var gapsSQL string

// A Gap is one or more versions of a record that are missing between two that are known.
type Gap struct {
	Account string `json:"supplier_account"`
	Record  string `json:"source_record"`
	Feed    string `json:"feed"`         // that states the version above
	First   int64  `json:"first,string"` // missing
	Last    int64  `json:"last,string"`  // missing too
}

// String names the versions: 8, or 8-10.
func (g Gap) String() string {
	if g.First == g.Last {
		return strconv.FormatInt(g.First, 10)
	}
	return fmt.Sprintf("%d-%d", g.First, g.Last)
}

// Gaps returns what is missing by now of the sources of the transaction's tenant that number without gaps. It is read from
// history, so it is right whatever came in which order; without a record, all history of the tenant is read for it.
func Gaps(ctx context.Context, q Querier, f Filter) ([]Gap, error) {
	var offers [][16]byte // nil: all
	if f.Record != "" {
		var err error
		if offers, err = OffersOf(ctx, q, f.Account, f.Record); err != nil {
			return nil, fmt.Errorf("list gaps: %w", err)
		}
	}
	rows, err := q.Query(ctx, gapsSQL, offers, f.Account, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list gaps: %w", err)
	}
	gaps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g Gap, err error) {
		return g, row.Scan(&g.Account, &g.Record, &g.Feed, &g.First, &g.Last)
	})
	if err != nil {
		return nil, fmt.Errorf("list gaps: %w", err)
	}
	return gaps, nil
}
