package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// A store is a database with two lanes, 1 and 2.
type store struct {
	t    *testing.T
	pool *pgxpool.Pool
}

func newStore(t *testing.T) *store {
	t.Helper()
	pool, err := postgres.Open(t.Context(), rig.Database(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &store{t, pool}
	s.in(postgres.Ingest, func(tx pgx.Tx) error {
		_, err := lane.Register(t.Context(), tx, lane.Input, "deliveries", uuid.New(), make([]int64, 2))
		return err
	})
	return s
}

func (s *store) in(role postgres.Role, f func(tx pgx.Tx) error) {
	s.t.Helper()
	if err := postgres.InTx(s.t.Context(), s.pool, role, f); err != nil {
		s.t.Fatal(err)
	}
}

// add appends n numbers to a lane as one range, and one more as an event.
func (s *store) add(l, n int) {
	s.t.Helper()
	s.in(postgres.Ingest, func(tx pgx.Tx) error { return add(s.t.Context(), tx, l, n) })
}

func add(ctx context.Context, tx pgx.Tx, l, n int) error {
	var seq int64
	if err := tx.QueryRow(ctx, "UPDATE lane SET sequence = sequence + $2 WHERE id = $1 RETURNING sequence", l, n+1).Scan(&seq); err != nil {
		return err
	}
	at := time.Unix(0, 0)
	return outbox.Append(ctx, tx,
		[]outbox.Range{{Lane: l, First: seq - int64(n), Last: seq - 1, RecordedAt: at}},
		[]outbox.Event{{Lane: l, Seq: seq, Topic: "current-offers", Key: "k", ID: uuid.New(), Type: "t", Body: []byte("{}"), RecordedAt: at}})
}

// publish takes the lanes and saves a cursor for each of them.
func (s *store) publish(cursors map[int]int64) {
	s.t.Helper()
	s.in(postgres.Relay, func(tx pgx.Tx) error {
		leases, err := outbox.Claim(s.t.Context(), tx, "publish", time.Minute, nil, 2)
		for _, l := range leases {
			if upTo, ok := cursors[l.Lane]; ok && err == nil {
				err = l.Save(s.t.Context(), tx, upTo)
			}
			if err == nil {
				err = l.Release(s.t.Context(), tx)
			}
		}
		return err
	})
}

func (s *store) prune(slotBytes int64) (p outbox.Pruned, err error) {
	err = postgres.InTx(s.t.Context(), s.pool, postgres.Janitor, func(tx pgx.Tx) (err error) {
		p, err = outbox.Prune(s.t.Context(), tx, slotBytes)
		return err
	})
	return p, err
}

// oneRow is the size of a slot that is full with one row: an empty table has a page, that of its TOAST index.
const oneRow = 8192

func (s *store) wantPrune(want outbox.Pruned) {
	s.t.Helper()
	if got, err := s.prune(oneRow); err != nil || got != want {
		s.t.Errorf("prune: got %+v and error %v, want %+v", got, err, want)
	}
}

func value[T any](s *store, sql string, args ...any) (v T) {
	s.t.Helper()
	s.in(postgres.Janitor, func(tx pgx.Tx) error { return tx.QueryRow(s.t.Context(), sql, args...).Scan(&v) })
	return v
}

func (s *store) wantPruned(want ...int64) {
	s.t.Helper()
	if got := value[[]int64](s, "SELECT array_agg(c.pruned ORDER BY c.lane) FROM relay_cursor AS c"); !slices.Equal(got, want) {
		s.t.Errorf("pruned marks: got %v, want %v", got, want)
	}
}

func (s *store) read(l int, after int64, limit int) (rows []outbox.Row, err error) {
	err = postgres.InTx(s.t.Context(), s.pool, postgres.Relay, func(tx pgx.Tx) (err error) {
		rows, err = outbox.Read(s.t.Context(), tx, l, after, limit)
		return err
	})
	return rows, err
}

func TestReadGoesOnFromAnyNumberThroughAllSlots(t *testing.T) {
	s := newStore(t)
	var want []string // by number, from 1: the row that holds it
	for i := range 6 {
		n := i%3 + 1
		s.add(1, n)
		s.add(2, 1)
		first := len(want) + 1
		for range n {
			want = append(want, fmt.Sprintf("%d-%d", first, first+n-1))
		}
		want = append(want, fmt.Sprintf("%d-%d event", first+n, first+n))
		if i%2 == 1 {
			if _, err := s.prune(oneRow); err != nil { // new rows go to the next slot
				t.Fatal(err)
			}
		}
	}
	describe := func(r outbox.Row) string {
		if r.Event != nil {
			return fmt.Sprintf("%d-%d event", r.First, r.Last)
		}
		return fmt.Sprintf("%d-%d", r.First, r.Last)
	}
	if slots := value[int](s, "SELECT count(DISTINCT slot) FROM outbox"); slots != 3 {
		t.Fatalf("the rows lie in %d slots, want 3", slots)
	}
	for after := range len(want) + 1 {
		for _, limit := range []int{1, 3, 100} {
			rows, err := s.read(1, int64(after), limit)
			if err != nil {
				t.Fatalf("after %d: %v", after, err)
			}
			exp := slices.Compact(slices.Clone(want[after:]))
			exp = exp[:min(len(exp), limit)]
			got := make([]string, len(rows))
			for i, r := range rows {
				got[i] = describe(r)
			}
			if !slices.Equal(got, exp) {
				t.Errorf("after %d, at most %d: got %v, want %v", after, limit, got, exp)
			}
		}
	}
	if _, err := s.read(1, int64(len(want))+1, 10); err == nil {
		t.Error("a lane below its cursor: got no error")
	}
}

func TestASlotIsEmptiedOnceAllOfItIsPublished(t *testing.T) {
	s := newStore(t)
	s.add(1, 4) // numbers 1 to 5 in slot 0
	s.add(2, 2) // 1 to 3
	s.publish(map[int]int64{1: 5, 2: 3})
	if p, err := s.prune(1 << 20); err != nil || p != (outbox.Pruned{}) {
		t.Errorf("a slot that is in use and not full: got %+v and error %v, want nothing done", p, err)
	}
	s.wantPrune(outbox.Pruned{Moved: true}) // to slot 1
	s.add(1, 1)                             // 6 and 7 in slot 1
	s.wantPrune(outbox.Pruned{Emptied: 1, Moved: true})
	s.wantPruned(5, 3)
	s.wantPrune(outbox.Pruned{}) // slot 1 holds what is not published, slot 2 is in use and empty
	s.add(2, 1)                  // 4 and 5 in slot 2
	s.wantPrune(outbox.Pruned{Moved: true})
	s.add(2, 1)                  // 6 and 7 in slot 0
	s.wantPrune(outbox.Pruned{}) // the next slot still holds rows
	s.publish(map[int]int64{1: 6, 2: 7})
	s.wantPrune(outbox.Pruned{Emptied: 1}) // slot 2; number 7 of lane 1 keeps slot 1
	s.wantPruned(5, 5)
	s.publish(map[int]int64{1: 7})
	s.wantPrune(outbox.Pruned{Emptied: 1, Moved: true})
	s.wantPruned(7, 5)
	if rows, err := s.read(2, 5, 10); err != nil || len(rows) != 2 {
		t.Errorf("read what was never pruned: got %d rows and error %v, want 2", len(rows), err)
	}
}

// A transaction that began before the ring moved may still be writing to its old slot.
func TestASlotInUseIsLeftAlone(t *testing.T) {
	s := newStore(t)
	s.add(1, 4)
	s.publish(map[int]int64{1: 5})
	written, commit, committed := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		committed <- postgres.InTx(t.Context(), s.pool, postgres.Ingest, func(tx pgx.Tx) error {
			err := add(t.Context(), tx, 2, 1)
			close(written)
			<-commit
			return err
		})
	}()
	<-written
	s.wantPrune(outbox.Pruned{Moved: true})
	if p, err := s.prune(oneRow); !errors.Is(err, outbox.ErrBusy) {
		t.Errorf("got %+v and error %v, want %v", p, err, outbox.ErrBusy)
	}
	close(commit)
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	s.wantPrune(outbox.Pruned{}) // the late row is not published
	s.publish(map[int]int64{2: 2})
	s.wantPrune(outbox.Pruned{Emptied: 1})
	s.wantPruned(5, 2)
}

func TestTheOutboxStaysSmallHoweverMuchGoesThrough(t *testing.T) {
	s := newStore(t)
	const slotBytes = 1 << 20
	body := bytes.Repeat([]byte("x"), 1000)
	var through, largest, last int64
	for range 60 {
		s.in(postgres.Ingest, func(tx pgx.Tx) error {
			events := make([]outbox.Event, 200)
			for i := range events {
				last++
				events[i] = outbox.Event{Lane: 1, Seq: last, Topic: "current-offers", Key: "k", ID: uuid.New(), Type: "t", Body: body, RecordedAt: time.Unix(0, 0)}
			}
			if _, err := tx.Exec(t.Context(), "UPDATE lane SET sequence = $1 WHERE id = 1", last); err != nil {
				return err
			}
			return outbox.Append(t.Context(), tx, nil, events)
		})
		through += 200 * int64(len(body))
		s.publish(map[int]int64{1: last})
		if _, err := s.prune(slotBytes); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, value[int64](s, "SELECT sum(pg_total_relation_size(i.inhrelid))::bigint FROM pg_inherits AS i WHERE i.inhparent = 'outbox'::regclass"))
	}
	if limit := int64(3 * slotBytes); largest > limit || through < 2*limit {
		t.Errorf("%d bytes went through %d bytes of tables, want at most %d", through, largest, limit)
	}
}

func TestALeaseIsOnesAtATime(t *testing.T) {
	s := newStore(t)
	claim := func(holder string, length time.Duration, but []int, limit int) (leases []outbox.Lease) {
		s.in(postgres.Relay, func(tx pgx.Tx) (err error) {
			leases, err = outbox.Claim(t.Context(), tx, holder, length, but, limit)
			return err
		})
		return leases
	}
	do := func(f func(ctx context.Context, tx pgx.Tx) error) error {
		return postgres.InTx(t.Context(), s.pool, postgres.Relay, func(tx pgx.Tx) error { return f(t.Context(), tx) })
	}
	save := func(l outbox.Lease, upTo int64) error {
		return do(func(ctx context.Context, tx pgx.Tx) error { return l.Save(ctx, tx, upTo) })
	}
	if got := claim("a", time.Minute, nil, 9); len(got) != 0 {
		t.Errorf("nothing to publish: got %v", got)
	}
	s.add(1, 1)
	s.add(2, 1)
	if got, want := claim("a", -time.Second, []int{2}, 9), []outbox.Lease{{Lane: 1, Holder: "a", Epoch: 1}}; !slices.Equal(got, want) {
		t.Errorf("all but lane 2: got %v, want %v", got, want)
	}
	a := outbox.Lease{Lane: 1, Holder: "a", Epoch: 1} // its time is over already
	if err := save(a, 1); err != nil {
		t.Errorf("a holder whose time is over and whom nobody has replaced: got %v", err)
	}
	b := claim("b", time.Minute, nil, 1)
	if want := []outbox.Lease{{Lane: 1, Holder: "b", Epoch: 2}}; !slices.Equal(b, want) {
		t.Fatalf("a lane that is free: got %v, want %v", b, want)
	}
	if err := save(a, 2); !errors.Is(err, outbox.ErrLost) {
		t.Errorf("a holder that was replaced: got %v, want %v", err, outbox.ErrLost)
	}
	if err := do(func(ctx context.Context, tx pgx.Tx) error { return a.Halt(ctx, tx, outbox.CursorBehind) }); !errors.Is(err, outbox.ErrLost) {
		t.Errorf("it halts the lane: got %v, want %v", err, outbox.ErrLost)
	}
	if got := claim("c", time.Minute, []int{2}, 9); len(got) != 0 {
		t.Errorf("a lane that is another's: got %v", got)
	}
	if err := errors.Join(save(b[0], 2), save(b[0], 1)); err != nil {
		t.Fatal(err)
	}
	if got := value[int64](s, "SELECT published FROM relay_cursor WHERE lane = 1"); got != 2 {
		t.Errorf("an older cursor saved later: got %d, want 2", got)
	}
	var kept []int
	s.in(postgres.Relay, func(tx pgx.Tx) (err error) {
		kept, err = outbox.Renew(t.Context(), tx, "b", []outbox.Lease{b[0], {Lane: 2, Holder: "b", Epoch: 1}}, time.Minute)
		return err
	})
	if !slices.Equal(kept, []int{1}) {
		t.Errorf("renew: got %v, want lane 1 alone", kept)
	}
	s.add(1, 1)
	if err := do(func(ctx context.Context, tx pgx.Tx) error { return b[0].Halt(ctx, tx, outbox.CursorBehind) }); err != nil {
		t.Fatal(err)
	}
	if got := claim("c", time.Minute, []int{2}, 9); len(got) != 0 {
		t.Errorf("a halted lane: got %v", got)
	}
}
