package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/postgres"
)

// needTenant makes sure that it is known whose data is meant.
func (a *app) needTenant() error {
	if a.settings.Tenant == "" {
		return usage("set --tenant, OFFERLOG_TENANT or tenant in "+defaultConfig, "no tenant is named")
	}
	return nil
}

// openTenant returns a pool whose login may read a tenant under role, and makes sure that the tenant is named.
func (a *app) openTenant(ctx context.Context, role postgres.Role) (*pgxpool.Pool, error) {
	if err := a.needPostgres(); err != nil {
		return nil, err
	}
	if err := a.needTenant(); err != nil {
		return nil, err
	}
	pool, err := a.openPostgres(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkRoles(ctx, pool, []postgres.Role{role}); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// asTenant finds a running dev and runs f in a read-only transaction that sees the rows of the settings' tenant and no others.
func (a *app) asTenant(ctx context.Context, role postgres.Role, f func(tx pgx.Tx) error) error {
	a.findDev()
	pool, err := a.openTenant(ctx, role)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.AsTenant(ctx, pool, role, a.settings.Tenant, f)
}

// atMost says on standard error that a list was cut.
func (a *app) atMost(shown, limit int) {
	if shown == limit {
		fmt.Fprintf(a.stderr, "note: these are the first %d; more with --limit\n", limit)
	}
}

// checkLimit refuses limits that would show nothing.
func checkLimit(limit int) error {
	if limit < 1 {
		return usage("leave it out for the default", "--limit %d: want 1 or more", limit)
	}
	return nil
}

// second cuts a time for people to the second; programs get it whole.
func second(rfc3339 string) string {
	t, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		return rfc3339
	}
	return t.UTC().Format(time.RFC3339)
}

// cells joins the cells of a table's row. Texts of suppliers lose what would move the cursor; an empty cell is a dash.
func cells(texts ...string) string {
	for i, t := range texts {
		texts[i] = cmp.Or(strings.Map(printable, t), "-")
	}
	return strings.Join(texts, "\t")
}

func printable(r rune) rune {
	if unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// A line is a name and a value of something that is printed for people alone.
type line struct{ name, value string }

func (a *app) showLines(title string, lines []line) error {
	return show(a, title, lines, func(l line) string { return strings.TrimSuffix(cells(l.name, l.value), "\t-") })
}
