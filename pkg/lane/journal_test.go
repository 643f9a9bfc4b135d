package lane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

func TestMergeJournalKeepsWhatTheJournalSays(t *testing.T) {
	mark := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	// An interval is offsets, numbers and the minutes that it was recorded before the mark.
	type interval struct {
		from, to, fromSeq, toSeq int64
		before                   int
	}
	for name, c := range map[string]struct {
		published int64
		journal   []interval
		want      string
		gone      int
	}{
		"an empty journal":                 {9, nil, "", 0},
		"one interval":                     {9, []interval{{0, 5, 0, 3, 9}}, "0-5/0-3", 0},
		"intervals that follow each other": {9, []interval{{0, 5, 0, 3, 9}, {5, 7, 3, 3, 8}, {7, 8, 3, 9, 7}}, "0-8/0-9", 2},
		"the newest stay":                  {9, []interval{{0, 5, 0, 3, 2}, {5, 7, 3, 4, 1}, {7, 8, 4, 5, 0}, {8, 9, 5, 6, -1}}, "0-7/0-4 7-8/4-5 8-9/5-6", 1},
		"what is not published stays, since lag is told by it": {3, []interval{{0, 5, 0, 2, 9}, {5, 7, 2, 3, 8}, {7, 8, 3, 4, 7}, {8, 9, 4, 5, 6}}, "0-7/0-3 7-8/3-4 8-9/4-5", 1},
		"a gap in offsets stays a gap":                         {9, []interval{{0, 5, 0, 3, 9}, {5, 6, 3, 4, 9}, {7, 8, 4, 5, 8}, {8, 9, 5, 6, 8}}, "0-6/0-4 7-9/4-6", 2},
		"a gap in numbers stays a gap":                         {9, []interval{{0, 5, 0, 3, 9}, {5, 6, 4, 5, 8}, {6, 7, 5, 6, 7}}, "0-5/0-3 5-7/4-6", 1},
		"an overlap stays an overlap":                          {9, []interval{{0, 5, 0, 3, 9}, {4, 6, 3, 4, 8}}, "0-5/0-3 4-6/3-4", 0},
	} {
		t.Run(name, func(t *testing.T) {
			pool, err := postgres.Open(t.Context(), rig.Database(t), 2)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			super, err := postgres.Open(t.Context(), rig.DatabaseAsSuperuser(t, pool.Config().ConnString()), 2)
			if err != nil {
				t.Fatal(err)
			}
			defer super.Close()
			execute := func(statement string, args ...any) {
				t.Helper()
				if _, err := super.Exec(t.Context(), statement, args...); err != nil {
					t.Fatal(err)
				}
			}
			execute("INSERT INTO relay_cursor (lane, published) VALUES (1, $1)", c.published)
			for _, i := range c.journal {
				execute("INSERT INTO commit_journal (lane, from_offset, to_offset, from_seq, to_seq, worker, recorded_at) VALUES (1, $1, $2, $3, $4, 'w', $5)",
					i.from, i.to, i.fromSeq, i.toSeq, mark.Add(-time.Duration(i.before)*time.Minute))
			}
			execute("INSERT INTO commit_journal (lane, from_offset, to_offset, from_seq, to_seq, worker, recorded_at) VALUES (2, 0, 1, 0, 1, 'w', $1)", mark)
			merge := func() (gone int) {
				t.Helper()
				err := postgres.InTx(t.Context(), pool, postgres.Janitor, func(tx pgx.Tx) (err error) {
					gone, err = lane.MergeJournal(t.Context(), tx, mark)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return gone
			}
			gone, again := merge(), merge()
			var left []string
			rows, err := super.Query(t.Context(), "SELECT from_offset, to_offset, from_seq, to_seq FROM commit_journal WHERE lane = 1 ORDER BY from_offset")
			if err != nil {
				t.Fatal(err)
			}
			var i interval
			if _, err := pgx.ForEachRow(rows, []any{&i.from, &i.to, &i.fromSeq, &i.toSeq}, func() error {
				left = append(left, fmt.Sprintf("%d-%d/%d-%d", i.from, i.to, i.fromSeq, i.toSeq))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(left, " "); got != c.want || gone != c.gone || again != 0 {
				t.Errorf("got %s with %d gone, then %d; want %s with %d gone, then none", got, gone, again, c.want, c.gone)
			}
		})
	}
}
