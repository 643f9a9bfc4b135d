package project_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams/project"
)

var operator = project.Command{Actor: "test"}

// build makes a generation and fills it.
func (in *installation) build() (id int) {
	in.t.Helper()
	id, err := project.Make(in.t.Context(), in.pool, operator)
	if err == nil {
		err = project.Fill(in.t.Context(), in.pool, id, func(int) {})
	}
	if err == nil {
		_, err = project.Finish(in.t.Context(), in.pool, id)
	}
	if err != nil {
		in.t.Fatal(err)
	}
	return id
}

func (in *installation) digestOf(generation int) (d offer.Digest) {
	in.t.Helper()
	in.query(func(tx pgx.Tx) (err error) {
		d, err = view.Digest(in.t.Context(), tx, generation)
		return err
	})
	return d
}

// feed shuffles the claims that stand in history and writes their events, with repeats.
func (in *installation) tell(lane int, prefix string, n int) {
	in.t.Helper()
	var claims []history.Observation
	for i := range n {
		c := claim{record: fmt.Sprintf("%s-%d", prefix, i%17), version: int64(i/17 + 1), price: fmt.Sprint(10 + i), deleted: i%5 == 4}
		claims = append(claims, c.observation(in.t, fmt.Sprintf("%s delivery %d", prefix, i)))
	}
	in.say(lane, claims...)
}

func TestS_000_09_a_view_that_was_dropped_is_built_again_to_the_same_digest(t *testing.T) {
	in := install(t, fake(t), 3)
	in.start()
	in.tell(100, "A", 60)
	in.settle()
	want := in.digest()
	in.superuser("DELETE FROM current_offer WHERE generation = 1")
	second := in.build()
	if got := in.digestOf(second); got != want {
		t.Errorf("got digest %s, want %s", got, want)
	}
	if _, err := project.Switch(t.Context(), in.pool, second, operator); err != nil {
		t.Fatal(err)
	}
	published := len(in.published())
	in.tell(101, "A", 60) // says again what is known: nothing new is published, whatever generation is active
	in.settle()
	if got := len(in.published()); got != published {
		t.Errorf("the hand-over published %d offers that stand as they were published", got-published)
	}
}

// A generation is filled while claims go on: both hold the same at every moment, only the active one publishes, and after a switch
// and back readers see what came meanwhile.
func TestAGenerationIsBuiltBesideTheActiveOne(t *testing.T) {
	in := install(t, fake(t), 3)
	stage := in.start()
	in.tell(100, "A", 80)
	in.settle()
	second, err := project.Make(t.Context(), in.pool, operator)
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error { return project.Fill(t.Context(), in.pool, second, func(int) {}) })
	for i := range 8 {
		in.tell(101, fmt.Sprint("B", i), 20)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	in.settle()
	if _, err := project.Finish(t.Context(), in.pool, second); err != nil {
		t.Fatal(err)
	}
	in.verify()
	stage.halt()
	if _, err := project.Switch(t.Context(), in.pool, second, operator); err != nil {
		t.Fatal(err)
	}
	in.start()
	in.tell(100, "C", 40)
	in.settle()
	in.verify()
	if a, b := in.digestOf(1), in.digestOf(second); a != b {
		t.Errorf("got digest %s of the new one, want that of the one before, %s, which is projected on", b, a)
	}
	if _, err := project.Retire(t.Context(), in.pool, second, operator); !errors.Is(err, project.ErrInUse) {
		t.Errorf("retire the active one: got error %v", err)
	}
	if _, err := project.Rollback(t.Context(), in.pool, operator); err != nil {
		t.Fatal(err)
	}
	in.tell(100, "D", 40)
	in.settle()
	in.verify()
	if n, err := project.Retire(t.Context(), in.pool, second, operator); err != nil || n == 0 {
		t.Errorf("retired with %d rows removed and error %v", n, err)
	}
	if n, err := project.Retire(t.Context(), in.pool, second, operator); err != nil || n != 0 {
		t.Errorf("again: %d rows removed and error %v, want nothing left to do", n, err)
	}
	in.tell(100, "E", 20)
	in.settle()
	in.verify()
}

func TestS_003_17_a_generation_is_complete_by_what_it_holds(t *testing.T) {
	in := install(t, fake(t), 2)
	in.start()
	in.tell(100, "A", 60)
	in.settle()
	second, err := project.Make(t.Context(), in.pool, operator)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		if _, err := project.Switch(t.Context(), in.pool, second, project.Command{Actor: "test", Reason: "whatever"}); !errors.Is(err, project.ErrIncomplete) {
			t.Errorf("%s: got error %v, want that it is incomplete", what, err)
		}
	}
	refused("its builder has died")
	if err := project.Fill(t.Context(), in.pool, second, func(int) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := project.Finish(t.Context(), in.pool, second); err != nil {
		t.Fatal(err)
	}
	in.superuser(fmt.Sprintf("DELETE FROM current_offer WHERE generation = %d AND record = 'A-3'", second))
	refused("a row is gone")
	p, err := project.Prove(t.Context(), in.pool, second)
	if err != nil || len(p.Wrong) != 1 || p.Wrong[0].Record != "A-3" || p.Wrong[0].How != "missing" {
		t.Errorf("got %+v and error %v, want that A-3 is missing", p.Wrong, err)
	}
	if err := project.Fill(t.Context(), in.pool, second, func(int) {}); err != nil {
		t.Fatal(err)
	}
	in.superuser(fmt.Sprintf("UPDATE current_offer SET flags = '{x}' WHERE generation = %d AND record = 'A-4'", second))
	refused("a row was changed")
	in.superuser(fmt.Sprintf("DELETE FROM current_offer WHERE generation = %d AND record = 'A-4'", second))
	if err := project.Fill(t.Context(), in.pool, second, func(int) {}); err != nil {
		t.Fatal(err)
	}
	in.superuser(fmt.Sprintf(`UPDATE generation SET manifest = jsonb_set(manifest, '{offers}', '1') WHERE id = %d`, second))
	refused("its manifest says otherwise")
}

// What the generation before showed wrongly is published as it is, once, with the partition's next batch.
func TestAHandOverPublishesWhatDiffers(t *testing.T) {
	in := install(t, fake(t), 1)
	in.start()
	in.tell(100, "A", 34)
	in.settle()
	in.superuser("UPDATE publication SET digest = '\\x00' WHERE offer IN (SELECT offer FROM current_offer WHERE record = 'A-1')")
	before := len(in.published())
	if _, err := project.Switch(t.Context(), in.pool, in.build(), operator); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		in.relay(kgo.TryCommit, in.feeder.events[100][:1]...)
		in.settle()
	}
	list := in.published()
	if len(list) != before+1 || list[before].Document.Record != "A-1" {
		t.Errorf("got %d more published, want A-1 once", len(list)-before)
	}
	in.verify()
}
