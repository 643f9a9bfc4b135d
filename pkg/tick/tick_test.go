package tick_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// Lanes go on in transactions that overlap, and several processes write ticks: times and numbers never fall from one to the next.
func TestTicksNeverFall(t *testing.T) {
	pool, err := postgres.Open(t.Context(), rig.Database(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ingest := func(ctx context.Context, f func(tx pgx.Tx) error) error {
		return postgres.InTx(ctx, pool, postgres.Ingest, f)
	}
	if err := ingest(t.Context(), func(tx pgx.Tx) error {
		if written, err := tick.Write(t.Context(), tx); err != nil || written {
			t.Errorf("got %t and error %v, want no tick: nothing has come yet", written, err)
		}
		if _, err := tick.At(t.Context(), tx, time.Now()); !errors.Is(err, tick.ErrNone) {
			t.Errorf("got error %v, want that nothing was known", err)
		}
		_, err := tx.Exec(t.Context(), `INSERT INTO lane (id, kind, topic, topic_id, partition, start, next)
		                                SELECT l, 'input', 'deliveries', '11111111-1111-1111-1111-111111111111', l, 0, 0 FROM generate_series(1, 3) AS l`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(t.Context())
	for lane := 1; lane <= 3; lane++ {
		g.Go(func() error {
			for range 60 {
				err := ingest(ctx, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE lane SET sequence = sequence + 1 WHERE id = $1", lane)
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 2 {
		g.Go(func() error {
			for range 60 {
				if err := ingest(ctx, func(tx pgx.Tx) error { _, err := tick.Write(ctx, tx); return err }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	err = ingest(t.Context(), func(tx pgx.Tx) error {
		if _, err := tick.Write(t.Context(), tx); err != nil {
			return err
		}
		last, err := tick.At(t.Context(), tx, time.Now().Add(time.Hour))
		if err != nil {
			return err
		}
		if last.Closed || len(last.UpTo) != 3 || last.UpTo[0] != 60 || last.UpTo[1] != 60 || last.UpTo[2] != 60 {
			t.Errorf("got %+v, want an open tick at 60 of each lane", last)
		}
		var fallen int
		err = tx.QueryRow(t.Context(), `SELECT count(*)
		                                  FROM tick AS a
		                                  JOIN tick AS b ON b.n = a.n + 1
		                                 CROSS JOIN LATERAL unnest(a.lanes, a.upto) AS was (lane, seq)
		                                 WHERE b.at < a.at
		                                    OR was.seq > coalesce(b.upto[array_position(b.lanes, was.lane)], 0)`).Scan(&fallen)
		if fallen > 0 {
			t.Errorf("%d lanes or times fall from a tick to the next", fallen)
		}
		before, err2 := tick.At(t.Context(), tx, last.At.Add(-time.Microsecond))
		if err2 != nil || before.N >= last.N || !before.Closed {
			t.Errorf("got tick %d and error %v, want a closed one before %d", before.N, err2, last.N)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
