package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
	"github.com/offerlog/offerlog/streams/settle"
)

// A death is one fault point and the hit of it at which the process kills itself.
type death struct {
	point  string
	hit    int
	proves string // requirement ids, as they stand in names of tests
	// commits is how many transactions the process has committed by then. Before a commit the one in hand is not among them,
	// after it it is. uncounted where not every transaction comes to the point once.
	commits int
}

// replays reports whether what was delivered so far is replayed meanwhile.
func (d death) replays() bool { return strings.HasPrefix(d.point, "replay.") }

const uncounted = -1

// deaths are died in this order; those of a list in one installation.
var deaths = []struct {
	name  string
	kind  string   // of the lanes that the killed process moves; "": none
	roles []string // of the process that is killed
	rest  []string // roles that go on meanwhile
	list  []death
}{
	{"M_02 ingest", "input", []string{"ingest"}, []string{"relay", "project"}, []death{
		{"ingest.fetched", 2, "S_003_04", 1},
		{"ingest.artifact_written", 1, "S_003_18", 0},
		{"ingest.artifact_synced", 1, "S_003_18", 0},
		{"ingest.artifact_verified", 1, "S_003_18", 0},
		{"ingest.mapped", 2, "S_003_19", 1},
		{"ingest.tx_locked", 2, "S_003_05", 1},
		{"ingest.receipts_claimed", 3, "S_000_27 S_003_05", 2},
		{"ingest.rows_half", 2, "S_000_28 S_003_20 S_003_05 S_003_04", 1},
		{"quarantine.before_commit", 1, "S_003_05", uncounted},
		{"ingest.before_commit", 3, "S_003_21 S_003_05 S_003_04", 2},
		{"ingest.after_commit", 2, "S_003_22 S_003_05 S_003_04", 2},
		{"quarantine.after_commit", 1, "S_003_22", uncounted},
		{"ingest.after_mirror", 2, "S_003_22", 2},
		{"replay.run_created", 1, "", uncounted},
		{"replay.page_half", 2, "", uncounted},
		{"replay.run_done", 1, "", uncounted},
	}},
	{"relay before it publishes", "", []string{"relay"}, []string{"ingest", "project"}, []death{
		{"relay.fenced", 2, "", uncounted},
		{"relay.cursor_read", 2, "", uncounted},
		{"relay.produced_half", 3, "", uncounted},
		{"relay.pruned_half", 1, "", uncounted},
	}},
	{"relay when it publishes", "", []string{"relay"}, []string{"ingest", "project"}, []death{
		{"relay.before_end_txn", 3, "", uncounted},
		{"relay.after_end_txn", 3, "", uncounted},
		{"relay.cursor_saved", 3, "", uncounted},
		{"offers.before_end_txn", 2, "", uncounted},
		{"offers.after_end_txn", 2, "", uncounted},
	}},
	{"project", "projector", []string{"project"}, []string{"ingest", "relay"}, []death{
		{"project.fetched", 2, "", 1},
		{"project.rows_half", 2, "", 1},
		{"project.before_commit", 3, "", 2},
		{"project.after_commit", 2, "", 2},
	}},
}

func TestS_000_34_EachFaultPoint(t *testing.T) {
	t.Parallel()
	var points []string
	for _, group := range deaths {
		for _, d := range group.list {
			points = append(points, d.point)
		}
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			in.start(shipped, "", group.rest...)
			victim := in.start(shipped, "", group.roles...)
			in.applyFeed()
			in.deliver(10)
			in.verify()
			victim.stop()
			for _, d := range group.list {
				t.Run(strings.TrimSpace(d.proves+" "+d.point), func(t *testing.T) {
					defer func(outer *testing.T) { in.t = outer }(in.t)
					in.t = t
					in.die(group.kind, d, group.roles)
				})
			}
			for _, outcome := range []string{"accepted", "duplicate", "replay_payload_mismatch", "schema_invalid", "not_a_cloudevent"} {
				if in.outcomes[outcome] == 0 {
					t.Errorf("no event was %s", outcome)
				}
			}
			t.Log(in)
		})
	}
	points = append(points, rewrapHalf, builtHalf, beforePoint, afterPoint, objectsDurable, manifestDurable) // of no stage
	slices.Sort(points)
	if want := slices.Sorted(slices.Values(fault.Points())); !slices.Equal(points, want) {
		t.Errorf("the points that are tried: got %q, want %q", points, want)
	}
}

// die lets a process kill itself at a point while deliveries come, looks at what it leaves, and lets another go on.
func (in *installation) die(kind string, d death, roles []string) {
	in.t.Helper()
	if d.point == "relay.pruned_half" {
		in.fillOutbox()
	}
	p := in.start(faulty, fmt.Sprintf("%s=kill:%d", d.point, d.hit), roles...)
	accepted := int64(in.deliveries)
	if d.replays() {
		in.replayEverything(accepted)
	}
	in.deliverUntilDead(p)
	p.diesOf(d.point, d.hit)
	if d.commits != uncounted {
		if got := in.commits(p, kind); got != d.commits {
			in.t.Errorf("the killed process has committed %d transactions, want %d", got, d.commits)
		}
	}
	if kind != "" { // a dead relay may leave a transaction open, which no audit passes over
		in.audit()
	}
	left := in.left(roles[0])
	in.endLeases()
	next := in.start(shipped, "", roles...)
	in.verify()
	if d.replays() {
		in.replayed(accepted)
	}
	in.recovered(d.point, roles[0], left)
	next.stop()
}

// endLeases ends the leases of the relays, as time does: nobody waits for that of a dead one. TestRandomKills does.
func (in *installation) endLeases() {
	in.t.Helper()
	err := postgres.InTx(in.t.Context(), in.Pool, postgres.Relay, func(tx pgx.Tx) error {
		_, err := tx.Exec(in.t.Context(), "UPDATE relay_cursor SET expires_at = '-infinity'")
		return err
	})
	if err != nil {
		in.t.Fatal(err)
	}
}

// deliverUntilDead publishes a wave, waits until it is everywhere, and so on until the process is no more.
func (in *installation) deliverUntilDead(p *process) {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), pipeline.Patience)
	defer cancel()
	alive, died := context.WithCancel(ctx)
	go func() {
		defer died()
		select {
		case <-p.child.Done():
		case <-ctx.Done():
		}
	}()
	for alive.Err() == nil {
		in.deliver(4)
		if _, err := settle.Wait(alive, in.Pool, in.Cluster, in.Inputs); err != nil && alive.Err() == nil {
			in.t.Fatal(err)
		}
		if err := settle.Announced(alive, in.Pool); err != nil && alive.Err() == nil {
			in.t.Fatal(err)
		}
	}
	if ctx.Err() != nil {
		in.t.Fatalf("process %s never came to its fault", p.name)
	}
}
