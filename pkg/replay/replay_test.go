package replay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams/rig"
)

// A page is due when the one before has had its time at the replay's rate, and no more than two seconds' worth is on its way.
func TestPagesAreSentAtTheRateOfTheReplay(t *testing.T) {
	pool, err := postgres.Open(t.Context(), rig.Database(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	now := time.Now()
	const rate = 10
	for name, test := range map[string]struct {
		sent, answered int
		at             time.Time // of the last page
		do             string    // to the replay, behind the page
		want           string    // page and how often it was resumed; "": none is due
	}{
		"a page whose time is over":         {rate, rate, now.Add(-time.Hour), "", "2 0"},
		"a page that ends in an hour":       {rate * 3600, rate * 3600, now, "", ""},
		"a page of an hour that is over":    {rate * 3600, rate * 3600, now.Add(-2 * time.Hour), "", "2 0"},
		"a page without deliveries":         {0, 0, now.Add(-time.Second), "", "2 0"},
		"the clock of a lane is ahead":      {0, 0, now.Add(24 * time.Hour), "", "2 0"},
		"two seconds of it on their way":    {3 * rate, rate, now.Add(-time.Hour), "", "2 0"},
		"more than that":                    {3*rate + 1, rate, now.Add(-time.Hour), "", ""},
		"a replay that waits":               {rate, rate, now.Add(-time.Hour), replay.Paused, ""},
		"a replay that has ended":           {rate, rate, now.Add(-time.Hour), replay.Cancelled, ""},
		"a replay that goes on after pause": {rate, rate, now.Add(-time.Hour), replay.Running, "2 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
				got, err := due(t.Context(), tx, rate, test.sent, test.answered, test.at, test.do)
				if err == nil && got != test.want {
					t.Errorf("got page %q due, want %q", got, test.want)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// due begins a replay, sends its first page, and says which one is due then.
func due(ctx context.Context, tx pgx.Tx, rate, sent, answered int, at time.Time, do string) (string, error) {
	r := replay.Run{Tenant: "t1", ID: uuid.New(), Rate: rate, RecordedAt: at}
	if err := replay.Begin(ctx, tx, &r); err != nil {
		return "", err
	}
	r.At = receipt.Place{Lane: 2}
	if err := replay.Turn(ctx, tx, &r, sent, false, at); err != nil {
		return "", err
	}
	var list []replay.Answered
	for i := range answered {
		list = append(list, replay.Answered{Tenant: r.Tenant, ID: r.ID, Place: receipt.Place{Lane: 1, Offset: int64(i)}})
	}
	if err := replay.Answer(ctx, tx, list); err != nil {
		return "", err
	}
	if do != "" {
		if err := replay.Set(ctx, tx, &r, do); err != nil {
			return "", err
		}
	}
	pages, err := replay.Pages(ctx, tx)
	for _, d := range pages {
		if d.ID == r.ID {
			return fmt.Sprint(d.Page, d.Resumed), err
		}
	}
	return "", err
}

func TestWhatWasNeverStoredIsWhatLanesHavePassedOver(t *testing.T) {
	pool, err := postgres.Open(t.Context(), rig.Database(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	// Partition 0 begins at 5; partition 1 went on without what its log had lost, and past what it gave again.
	err = postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		lanes, err := lane.Register(t.Context(), tx, lane.Input, "late", uuid.New(), []int64{5, 0})
		if err != nil {
			return err
		}
		for _, g := range []struct {
			from, to int64
			reason   string
		}{{2, 4, lane.LogGap}, {7, 9, lane.LogTruncated}, {9, 9, lane.TopicRecreated}} {
			if _, err := tx.Exec(t.Context(), `INSERT INTO gap (lane, command, from_offset, to_offset, reason, actor, why, recorded_at)
			                                   VALUES ($1, $2, $3, $4, $5, 'alice', 'ticket 4411', now())`, lanes[1].ID, uuid.New(), g.from, g.to, g.reason); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		sel  replay.Selection
		want string
	}{
		"no topic":                     {replay.Selection{}, "[]"},
		"another topic":                {replay.Selection{Topic: "early"}, "[]"},
		"a topic":                      {replay.Selection{Topic: "late"}, "[{1 2 4} {1 7 9}]"},
		"from below where it begins":   {replay.Selection{Topic: "late", Partition: new(int32(0)), FromOffset: new(int64(1))}, "[{0 1 5}]"},
		"up to below where it begins":  {replay.Selection{Topic: "late", Partition: new(int32(0)), FromOffset: new(int64(1)), ToOffset: new(int64(3))}, "[{0 1 3}]"},
		"from where it begins":         {replay.Selection{Topic: "late", Partition: new(int32(0)), FromOffset: new(int64(5))}, "[]"},
		"a part of what was passed":    {replay.Selection{Topic: "late", Partition: new(int32(1)), FromOffset: new(int64(3)), ToOffset: new(int64(8))}, "[{1 3 4} {1 7 8}]"},
		"a feed of it":                 {replay.Selection{Topic: "late", Feed: "acme-eu"}, "[{1 2 4} {1 7 9}]"},
		"a run, which nobody knows of": {replay.Selection{Topic: "late", Run: "EXP"}, "[]"},
		"a record, likewise":           {replay.Selection{Topic: "late", Record: "A"}, "[]"},
		"a time, likewise":             {replay.Selection{Topic: "late", From: new(time.Now())}, "[]"},
	} {
		err := postgres.AsTenant(t.Context(), pool, postgres.Audit, "t1", func(tx pgx.Tx) error {
			got, err := replay.NeverStored(t.Context(), tx, &test.sel)
			if fmt.Sprint(got) != test.want {
				t.Errorf("%s: got %v, want %s", name, got, test.want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// However often references to a delivery are read, it counts once: as sent, and as answered.
func TestAReplayThatBeginsAgainCountsADeliveryOnce(t *testing.T) {
	pool, err := postgres.Open(t.Context(), rig.Database(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := replay.Run{Tenant: "t1", ID: uuid.New(), Rate: 10, RecordedAt: time.Now()}
	// answer is what the transaction of a batch does that read references to deliveries at offsets of lane 1.
	at := int64(0)
	answer := func(tx pgx.Tx, offsets ...int64) error {
		var list []replay.Answered
		for _, o := range offsets {
			list = append(list, replay.Answered{Tenant: r.Tenant, ID: r.ID, Place: receipt.Place{Lane: 1, Offset: o}})
		}
		err := replay.Answer(t.Context(), tx, list)
		for _, o := range offsets {
			at++
			_, e := tx.Exec(t.Context(), `INSERT INTO replay (tenant, lane, "offset", entry_tenant, entry, release, row, origin_lane, origin_offset, origin_item, of_run)
			                              VALUES ('t1', 9, $1, 't1', NULL, 0, 0, 1, $2, 0, $3)`, at, o, r.ID)
			err = errors.Join(err, e)
		}
		return err
	}
	for _, step := range []struct {
		name string
		do   func(tx pgx.Tx) error
		want string
	}{
		{"four are sent", func(tx pgx.Tx) error {
			if err := replay.Begin(t.Context(), tx, &r); err != nil {
				return err
			}
			r.At = receipt.Place{Lane: 1, Offset: 4}
			return replay.Turn(t.Context(), tx, &r, 4, true, time.Now())
		}, "sent 4 4 0"},
		{"one is answered, twice in a batch", func(tx pgx.Tx) error { return answer(tx, 1, 1) }, "sent 4 4 1"},
		{"and once more", func(tx pgx.Tx) error { return answer(tx, 1) }, "sent 4 4 1"},
		{"it begins again", func(tx pgx.Tx) error { return replay.Again(t.Context(), tx) }, "running 0 1 1"},
		{"one is answered before it is sent again", func(tx pgx.Tx) error { return answer(tx, 2) }, "running 0 2 2"},
		{"the others are sent again", func(tx pgx.Tx) error {
			r.At = receipt.Place{Lane: 1, Offset: 4}
			return replay.Turn(t.Context(), tx, &r, 2, true, time.Now())
		}, "sent 4 4 2"},
		{"one is answered as it was sent first", func(tx pgx.Tx) error { return answer(tx, 3) }, "sent 4 4 3"},
		{"and as it was sent again, with the last", func(tx pgx.Tx) error { return answer(tx, 3, 4) }, "sent 4 4 4"},
		{"one that waits for nothing does not begin again", func(tx pgx.Tx) error { return replay.Again(t.Context(), tx) }, "sent 4 4 4"},
	} {
		var got string
		err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
			if err := step.do(tx); err != nil {
				return err
			}
			now, _, err := replay.Lock(t.Context(), tx, r.Tenant, r.ID)
			got = fmt.Sprintf("%s %d %d %d", now.State, now.At.Offset, now.Sent, now.Answered)
			return err
		})
		if err != nil || got != step.want {
			t.Errorf("%s: got %s and error %v, want %s", step.name, got, err, step.want)
		}
	}
}
