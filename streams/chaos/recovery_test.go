package chaos

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/offerlog/offerlog/streams"
)

// A start is one as offerlog status prints it: what a worker found at a lane, and has done about it.
type start struct {
	Kind, Stage, Topic, Worker, Predecessor, State string
	Partition                                      int32
	Number, Checkpoint, Until, Recognized, Redone  int64
	ToRedo                                         int64 `json:"to_redo"`
	Results                                        []string
}

// A position is one as offerlog status prints it.
type position struct {
	Kind, Stage, Topic string
	Partition          int32
	Next, End, Lag     int64
}

// A place is a partition that a stage reads; the relay's is that of its lane.
type place struct {
	topic     string
	partition int32
}

// status is what offerlog status says of a stage now, where nothing may wait.
func (in *installation) status(stage string) (starts []start, at map[place]position) {
	in.t.Helper()
	cmd := exec.CommandContext(in.t.Context(), shipped.program(in.t), "status", "--json", "--patience", "1ms",
		"--kafka", strings.Join(in.Cluster.Brokers, ","), "--kafka-prefix", in.Cluster.Prefix, "--postgres", in.DSN)
	cmd.Dir = in.dir
	out, err := cmd.Output()
	if err != nil {
		in.t.Fatalf("offerlog status: %v: %s", err, out)
	}
	at = map[place]position{}
	for line := range strings.Lines(string(out)) {
		var s start
		var p position
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			in.t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			in.t.Fatal(err)
		}
		switch {
		case s.Kind == "start" && s.Stage == stage:
			starts = append(starts, s)
		case s.Kind == "position" && s.Stage == stage:
			at[place{p.Topic, p.Partition}] = p
		}
	}
	return starts, at
}

// A leaving is what a dead worker has left at one place: its own start, where it stood, and what the group had heard of that.
type leaving struct {
	start
	position
	mirrored int64
}

// left is what a dead worker of a stage has left. What waits for it is stalled, and never complete.
func (in *installation) left(stage string) map[place]leaving {
	in.t.Helper()
	starts, at := in.status(stage)
	var mirror kadm.OffsetResponses
	if group := map[string]string{"ingest": streams.IngestGroup, "project": streams.ProjectGroup}[stage]; group != "" {
		var err error
		if mirror, err = kadm.NewClient(in.Client).FetchOffsets(in.t.Context(), in.Cluster.Prefix+group); err != nil {
			in.t.Fatal(err)
		}
	}
	left := map[place]leaving{}
	for _, s := range starts {
		p := place{s.Topic, s.Partition}
		l := leaving{start: s, position: at[p], mirrored: -1}
		if m, ok := mirror.Lookup(in.Cluster.Topic(s.Topic), s.Partition); ok {
			l.mirrored = m.At
		}
		left[p] = l // the latest comes last
	}
	for p, l := range left {
		if l.Lag > 0 && l.State != "stalled" {
			in.t.Errorf("%s of %v died with %d offsets to go, status says that it is %s", stage, p, l.Lag, l.State)
		}
	}
	return left
}

// recovered holds what the worker that took the place of a dead one reports against what that one had left. A death before its commit
// leaves work to be done again, one after it a result that nobody has heard of.
func (in *installation) recovered(point, stage string, left map[place]leaving) {
	in.t.Helper()
	var starts []start
	next := func(p place, l leaving) int {
		return slices.IndexFunc(starts, func(s start) bool { return place{s.Topic, s.Partition} == p && s.Number > l.Number })
	}
	in.Until("the next worker to start", func(context.Context) (bool, error) {
		starts, _ = in.status(stage)
		for p, l := range left {
			if next(p, l) < 0 && stage != "relay" { // which takes a lane when there is something to publish
				return false, nil
			}
		}
		return true, nil
	})
	results := map[string]bool{}
	for p, l := range left {
		i := next(p, l)
		if i < 0 {
			continue
		}
		s := starts[i]
		want := l.Worker // which has died
		if l.State == "left" {
			want = ""
		}
		if s.Predecessor != want {
			in.t.Errorf("%v is taken over from %q, want %q", p, s.Predecessor, want)
		}
		if s.Redone != s.ToRedo || s.State != "complete" && s.State != "replaced" {
			in.t.Errorf("%v: %d of %d are redone, state %s, want all", p, s.Redone, s.ToRedo, s.State)
		}
		if stage != "relay" {
			if want := l.Next - max(l.mirrored, l.Checkpoint); s.Checkpoint != l.Next || s.Until < l.End || s.Recognized != want {
				in.t.Errorf("%v: got checkpoint %d, end %d, recognized %d, want %d, at least %d, %d", p, s.Checkpoint, s.Until, s.Recognized, l.Next, l.End, want)
			}
		}
		for _, r := range s.Results {
			results[r] = true
		}
	}
	switch {
	case strings.HasSuffix(point, ".after_commit"), strings.HasSuffix(point, ".after_end_txn"):
		if !results["recognized"] {
			in.t.Errorf("the reports say %v, want recognized", results)
		}
	case strings.HasPrefix(point, "ingest.") && point != "ingest.after_mirror", strings.HasSuffix(point, ".before_commit"), strings.HasSuffix(point, "_half"),
		strings.HasSuffix(point, ".before_end_txn"):
		if !results["redone"] && point != "relay.pruned_half" {
			in.t.Errorf("the reports say %v, want redone", results)
		}
	}
}
