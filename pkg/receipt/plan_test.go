package receipt_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams/rig"
)

// crowd stores so many deliveries of ten other tenants, one row each, behind those of story in both lanes.
func (s *stage) crowd(n int) {
	s.write(func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`INSERT INTO receipt (tenant, delivery, canonicalization, fingerprint, lane, "offset", item)
			 SELECT 'n' || i % 10, md5('d' || i)::uuid, 'json/1', sha256(i::text::bytea), $2[1 + i / 10 % 2], i + 10, 0 FROM generate_series(1, $1) AS i`,
			`INSERT INTO outcome (lane, "offset", item, tenant, delivery, feed, outcome, archived, rows, saved, first_seq, last_seq, retrieved_ns, recorded_at)
			 SELECT $2[1 + i / 10 % 2], i + 10, 0, 'n' || i % 10, md5('d' || i)::uuid, 'acme-eu', 'accepted', true, 1, 1, i + 10, i + 10, 0,
			        '2026-03-03Z'::timestamptz + i * interval '1 second' FROM generate_series(1, $1) AS i`,
			`INSERT INTO observation (tenant, offer, strong, ord, id, lane, seq, delivery, row, feed, account, record, revision_key, mapping_version,
			                          observed_ns, observed_at, retrieved_ns, recorded_at, content)
			 SELECT 'n' || i % 10, md5('o' || i / 20)::uuid, true, i, md5('i' || i)::uuid, $2[1 + i / 10 % 2], i + 10, md5('d' || i)::uuid, 1, 'acme-eu', 'ACC 1',
			        'R' || i / 20, 'k' || i, 1, 0, '', 0, '2026-03-03Z', sha256(i::text::bytea) FROM generate_series(1, $1) AS i`,
			`INSERT INTO sighting (lane, seq, tenant, offer, strong, ord, observation, delivery, row, observed_ns, observed_at, retrieved_ns, recorded_at)
			 SELECT $2[1 + i / 10 % 2], $1 + i + 10, 'n' || i % 10, md5('o' || i / 20)::uuid, true, i, md5('i' || i)::uuid, md5('s' || i)::uuid, 1, 0, '', 0, '2026-03-03Z'
			   FROM generate_series(1, $1) AS i`,
			"UPDATE lane SET next = $1 + 11 WHERE id = ANY ($2)",
		} {
			sql = strings.NewReplacer("$2[", "($2::int[])[", "$1", "$1::int").Replace(sql)
			if _, err := tx.Exec(ctx, sql, n, []int{s.lanes[0].ID, s.lanes[1].ID}); err != nil {
				return err
			}
		}
		return nil
	})
	conn, err := pgx.Connect(s.t.Context(), rig.DatabaseAsSuperuser(s.t, s.dsn))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) }()
	if _, err := conn.Exec(s.t.Context(), "ANALYZE"); err != nil {
		s.t.Fatal(err)
	}
}

// An explainer keeps the plans of the queries that it passes on.
type explainer struct {
	pgx.Tx
	plans []string
}

func (e *explainer) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.Tx.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+sql, args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	e.plans = append(e.plans, strings.Join(lines, "\n"))
	return e.Tx.Query(ctx, sql, args...)
}

// What one asks for costs what it is, however much there is of the tenant and of others: every read finds its rows by a key.
// The numbers of pages are bounds with room; a walk through the tenant's history would need a thousand.
func TestReadsOfATenantFollowKeys(t *testing.T) {
	s := newStage(t)
	key, _, _ := s.story()
	s.crowd(50_000)
	story := key.ID()
	var crowded offer.DeliveryID // of the tenant n3
	s.write(func(ctx context.Context, tx pgx.Tx) error {
		var id uuid.UUID
		err := tx.QueryRow(ctx, "SELECT md5('d33333')::uuid").Scan(&id)
		crowded = offer.DeliveryID(id)
		return err
	})
	records := func(f history.Filter) func(ctx context.Context, q receipt.Querier) ([]string, error) {
		return func(ctx context.Context, q receipt.Querier) (got []string, err error) {
			list, err := history.List(ctx, q, f)
			for i := range list {
				got = append(got, list[i].Key.Record)
			}
			return got, err
		}
	}
	places := func(list []receipt.Document, err error) (got []string, _ error) {
		for _, d := range list {
			got = append(got, fmt.Sprint(d.Where(), " ", len(d.Observations)))
		}
		return got, err
	}
	attempts := func(id offer.DeliveryID) func(ctx context.Context, q receipt.Querier) ([]string, error) {
		return func(ctx context.Context, q receipt.Querier) ([]string, error) { return places(receipt.Of(ctx, q, id)) }
	}
	latest := func(f receipt.Filter) func(ctx context.Context, q receipt.Querier) ([]string, error) {
		return func(ctx context.Context, q receipt.Querier) ([]string, error) { return places(receipt.List(ctx, q, f)) }
	}
	for what, c := range map[string]struct {
		role   postgres.Role
		tenant string
		read   func(ctx context.Context, q receipt.Querier) ([]string, error)
		want   []string
		pages  int // of each statement
	}{
		"a record of an account":           {postgres.Read, "t1", records(history.Filter{Account: "ACC 1", Record: "A", Limit: 1000}), []string{"A"}, 20},
		"a record of whichever account":    {postgres.Read, "t1", records(history.Filter{Record: "A", Limit: 1000}), []string{"A"}, 20},
		"a record that the account lacks":  {postgres.Read, "t1", records(history.Filter{Account: "ACC 2", Record: "A", Limit: 1000}), nil, 20},
		"a delivery's claims":              {postgres.Read, "t1", records(history.Filter{Delivery: &story, Limit: 1000}), []string{"A", "B"}, 60},
		"of them those of a record":        {postgres.Read, "t1", records(history.Filter{Delivery: &story, Record: "B", Limit: 1000}), []string{"B"}, 60},
		"a delivery's claims among many":   {postgres.Read, "n3", records(history.Filter{Delivery: &crowded, Limit: 1000}), []string{"R1666"}, 60},
		"another tenant's delivery":        {postgres.Read, "t1", records(history.Filter{Delivery: &crowded, Limit: 1000}), nil, 60},
		"some of an account":               {postgres.Read, "t1", records(history.Filter{Account: "ACC 1", Limit: 1}), []string{"A"}, 60},
		"a delivery's attempts":            {postgres.Audit, "t1", attempts(story), []string{"deliveries/0/3 0", "deliveries/0/4 2", "deliveries/1/0 2", "deliveries/1/1 0"}, 250},
		"a delivery's attempts among many": {postgres.Audit, "n3", attempts(crowded), []string{"deliveries/1/33343 1"}, 60},
		"the latest of a tenant":           {postgres.Audit, "n3", latest(receipt.Filter{Limit: 2}), []string{"deliveries/1/50003 1", "deliveries/0/49993 1"}, 150},
		"with an outcome that is rare":     {postgres.Audit, "t1", latest(receipt.Filter{Outcome: offer.Duplicate, Limit: 20}), []string{"deliveries/1/0 2"}, 2500},
	} {
		err := postgres.AsTenant(t.Context(), s.pool, c.role, c.tenant, func(tx pgx.Tx) error {
			e := &explainer{Tx: tx}
			got, err := c.read(t.Context(), e)
			if err == nil && !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", what, got, c.want)
			}
			for _, plan := range e.plans {
				if whole.MatchString(plan) || pages(plan) > c.pages {
					t.Errorf("%s: %d pages, want at most %d and no whole table:\n%s", what, pages(plan), c.pages, plan)
				}
			}
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

var (
	whole   = regexp.MustCompile(`Seq Scan on (outcome|observation|sighting|receipt)\b`)
	buffers = regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)
)

// pages is how many a plan says that it looked at.
func pages(plan string) (n int) {
	if m := buffers.FindStringSubmatch(plan); m != nil { // the first is that of the whole
		for _, part := range m[1:] {
			k, _ := strconv.Atoi(part) // "": none
			n += k
		}
	}
	return n
}
