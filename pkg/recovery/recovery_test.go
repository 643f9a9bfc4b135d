package recovery_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/recovery"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

func TestS_003_23_EachStartSaysWhatItFound(t *testing.T) {
	pool, err := postgres.Open(t.Context(), rig.Database(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ingest := func(f func(tx pgx.Tx) error) {
		t.Helper()
		if err := postgres.InTx(t.Context(), pool, postgres.Ingest, f); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(worker string, f recovery.Found) (starts recovery.Starts) {
		t.Helper()
		f.Lane = 1
		ingest(func(tx pgx.Tx) (err error) {
			starts, err = recovery.Begin(t.Context(), tx, recovery.Ingest, worker, []recovery.Found{f})
			return err
		})
		return starts
	}
	moves := func(next int64) {
		t.Helper()
		ingest(func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "UPDATE lane SET next = $1, clock = clock_timestamp() WHERE id = 1", next)
			return err
		})
	}
	ingest(func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO lane (id, kind, topic, topic_id, partition, start, next)
		                                VALUES (1, 'input', 'deliveries', '11111111-1111-1111-1111-111111111111', 0, 0, 0)`)
		return err
	})

	begin("first", recovery.Found{Heard: -1, Checkpoint: 0, Until: 9})
	moves(5) // and dies, after it has told of 3
	second := begin("second", recovery.Found{Heard: 3, Checkpoint: 5, Until: 9})
	moves(9)
	for range 2 {
		ingest(func(tx pgx.Tx) error { return recovery.Leave(t.Context(), tx, recovery.Ingest, second) })
	}
	begin("third", recovery.Found{Heard: 7, Checkpoint: 9, Until: 12})  // dies at once
	begin("fourth", recovery.Found{Heard: 7, Checkpoint: 9, Until: 12}) // of what the second one committed, it knew itself
	moves(10)
	ingest(func(tx pgx.Tx) error { return recovery.Leave(t.Context(), tx, recovery.Ingest, second) }) // a word that comes late

	type report struct {
		worker, predecessor string
		recognized, redone  int64
		results             string
		left, latest        bool
	}
	list := func() (got []report) {
		t.Helper()
		err := postgres.InTx(t.Context(), pool, postgres.Inspect, func(tx pgx.Tx) error {
			reports, err := recovery.List(t.Context(), tx)
			got = nil
			for _, r := range reports {
				results := r.Results()
				got = append(got, report{r.Worker, r.Predecessor, r.Recognized(), r.Redone(), strings.Join(results, "+"), r.LeftAt != nil, r.Latest})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := []report{
		{"first", "", 0, 0, "nothing", false, false},
		{"second", "first", 2, 4, "recognized+redone", true, false},
		{"third", "", 0, 0, "nothing", false, false},
		{"fourth", "third", 0, 1, "redone", false, true},
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range 40 {
		begin("fifth", recovery.Found{Heard: 10, Checkpoint: 10, Until: 10})
	}
	if got := list(); len(got) != 32 || slices.ContainsFunc(got, func(r report) bool { return r.worker != "fifth" }) {
		t.Errorf("got %d reports, %v, want the last 32", len(got), got)
	}
}

func TestS_003_23_AWorkerThatStopsWithoutErrorIsNeverComplete(t *testing.T) {
	now := time.Now()
	long, short := now.Add(-time.Hour), now.Add(-time.Second)
	for name, c := range map[string]struct {
		recovery.Report
		lag   int64
		waits bool
		want  string
	}{
		"all is done":                                    {recovery.Report{Latest: true, MovedAt: long}, 0, false, recovery.Complete},
		"it goes on with what it found":                  {recovery.Report{Latest: true, MovedAt: short, Found: recovery.Found{Until: 9}, Reached: 3}, 6, true, recovery.Working},
		"something has just come":                        {recovery.Report{Latest: true, MovedAt: long}, 1, false, recovery.Working},
		"something waits and the worker is silent":       {recovery.Report{Latest: true, MovedAt: long}, 1, true, recovery.Stalled},
		"it is silent before it has done what it found":  {recovery.Report{Latest: true, MovedAt: long, Found: recovery.Found{Until: 9}, Reached: 3}, 6, true, recovery.Stalled},
		"what waits is new, and some of the old is left": {recovery.Report{Latest: true, MovedAt: long, Found: recovery.Found{Until: 9}, Reached: 3}, 0, false, recovery.Working},
		"it has left in order":                           {recovery.Report{Latest: true, MovedAt: long, LeftAt: &short}, 1, true, recovery.Left},
		"another has taken over":                         {recovery.Report{MovedAt: long}, 1, true, recovery.Replaced},
	} {
		if got := c.State(now, time.Minute, c.lag, c.waits); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
