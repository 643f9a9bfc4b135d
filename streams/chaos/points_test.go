package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
	"github.com/offerlog/offerlog/streams/settle"
)

// A death is one fault point and the hit of it at which the process kills itself.
type death struct {
	point  string
	hit    int
	proves string // requirement ids, as they stand in names of tests
	// stored is how many transactions the process has committed by then, counting from the hit: -1, the one in hand is not
	// among them; 0, it is; absent where a transaction does not come to the point exactly once.
	stored *int
}

var (
	lost = func() *int { n := -1; return &n }()
	kept = new(int)
)

// deaths are done in this order; those of a list share an installation.
var deaths = []struct {
	name  string
	kind  string // of the lanes that the killed process moves; "" none
	roles []string
	rest  []string // roles that go on meanwhile
	list  []death
}{
	{"M_02 ingest", "input", []string{"ingest"}, []string{"relay", "project"}, []death{
		{"ingest.fetched", 2, "S_003_04", lost},
		{"ingest.artifact_written", 1, "S_003_18", lost},
		{"ingest.artifact_synced", 1, "S_003_18", lost},
		{"ingest.artifact_verified", 1, "S_003_18", lost},
		{"ingest.mapped", 2, "S_003_19", lost},
		{"ingest.tx_locked", 2, "S_003_05", lost},
		{"ingest.receipts_claimed", 3, "S_000_27 S_003_05", lost},
		{"ingest.rows_half", 2, "S_000_28 S_003_20 S_003_05 S_003_04", lost},
		{"quarantine.before_commit", 1, "S_003_05", nil},
		{"ingest.before_commit", 3, "S_003_21 S_003_05 S_003_04", lost},
		{"ingest.after_commit", 2, "S_003_22 S_003_05 S_003_04", kept},
		{"quarantine.after_commit", 1, "S_003_22", nil},
		{"ingest.after_mirror", 2, "S_003_22", kept},
	}},
	{"relay starts", "", []string{"relay"}, []string{"ingest", "project"}, []death{
		{"relay.fenced", 2, "", nil},
		{"relay.cursor_read", 2, "", nil},
		{"relay.produced_half", 3, "", nil},
		{"relay.pruned_half", 1, "", nil},
	}},
	{"relay publishes", "", []string{"relay"}, []string{"ingest", "project"}, []death{
		{"relay.before_end_txn", 3, "", nil},
		{"relay.after_end_txn", 3, "", nil},
		{"relay.cursor_saved", 3, "", nil},
		{"offers.before_end_txn", 2, "", nil},
		{"offers.after_end_txn", 2, "", nil},
	}},
	{"project", "projector", []string{"project"}, []string{"ingest", "relay"}, []death{
		{"project.fetched", 2, "", lost},
		{"project.rows_half", 2, "", lost},
		{"project.before_commit", 3, "", lost},
		{"project.after_commit", 2, "", kept},
	}},
}

func TestEachFaultPoint(t *testing.T) {
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
					in.die(group.kind, d, group.roles)
				})
			}
			t.Log(in)
		})
	}
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
	in.deliverUntilDead(p)
	p.diesOf(d.point, d.hit)
	if d.stored != nil {
		if got, want := in.commits(p, kind), d.hit+*d.stored; got != want {
			in.t.Errorf("the killed process has committed %d transactions, want %d", got, want)
		}
	}
	if kind != "" { // a dead relay may leave a transaction open, which no audit passes over
		in.audit()
	}
	next := in.start(shipped, "", roles...)
	in.verify()
	next.stop()
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
