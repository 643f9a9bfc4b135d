package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/offerlog/offerlog/pkg/export"
)

// Points of no stage: TestAKilledOperatorLeavesNoGenerationHalfVisible.
const (
	builtHalf       = "generation.built_half"
	beforePoint     = "generation.before_point"
	afterPoint      = "generation.after_point"
	objectsDurable  = "export.objects_durable"
	manifestDurable = "export.manifest_durable"
)

// generation runs offerlog generation, and reads the lines that it prints.
func (in *installation) generation(b *build, faults string, args ...string) (lines []map[string]any, killed bool) {
	in.t.Helper()
	cmd := b.command(in.t, append([]string{"generation", "--json", "--postgres", in.DSN}, args...)...)
	cmd.Dir, cmd.Env = in.host, append(os.Environ(), "OFFERLOG_FAULT="+faults)
	out, err := cmd.Output()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if killed = ok && status.Signal() == syscall.SIGKILL; killed {
		return nil, true
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); err == nil && dec.More(); {
		var line map[string]any
		err = dec.Decode(&line)
		lines = append(lines, line)
	}
	if err != nil {
		in.t.Fatalf("generation %v: %v: %s", args, err, out)
	}
	return lines, false
}

// Operators' commands are killed wherever they may be, while deliveries come: a generation whose builder died is building and goes on,
// the pointer has moved or has not, and an export is the one before until it is whole.
func TestAKilledOperatorLeavesNoGenerationHalfVisible(t *testing.T) {
	in := newInstallation(t)
	in.start(shipped, "", "ingest", "relay", "project")
	in.applyFeed()
	in.deliver(20)
	in.verify()
	dies := func(point string, args ...string) {
		t.Helper()
		if lines, killed := in.generation(faulty, point+"=kill", args...); !killed {
			t.Fatalf("generation %v was not killed at %s: %v", args, point, lines)
		}
	}
	does := func(args ...string) []map[string]any {
		t.Helper()
		lines, _ := in.generation(shipped, "", args...)
		return lines
	}
	// is are the generations and how each stands.
	is := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, g := range does("list") {
			standing := g["status"].(string)
			if g["active"].(bool) {
				standing += ", active"
			}
			got = append(got, standing)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	t.Run("S_003_17 "+builtHalf, func(_ *testing.T) {
		dies(builtHalf, "build")
		in.deliver(20)
		in.verify()
		is("its builder has died", "complete, active", "building")
		does("build", "2")
		is("another one went on", "complete, active", "complete")
	})
	t.Run(beforePoint, func(_ *testing.T) {
		dies(beforePoint, "switch", "2")
		is("before the pointer moved", "complete, active", "complete")
	})
	t.Run(afterPoint, func(_ *testing.T) {
		dies(afterPoint, "switch", "2")
		is("after it moved", "complete", "complete, active")
		in.deliver(20)
		in.verify()
		does("switch", "2")
		does("retire", "1")
		is("the one before is not needed any more", "retired", "complete, active")
	})
	dir := filepath.Join(in.host, "exported")
	t.Run("S_003_06 "+objectsDurable, func(t *testing.T) {
		dies(objectsDurable, "export", dir)
		if _, err := export.Verify(dir); !errors.Is(err, export.ErrNone) {
			t.Errorf("killed before its manifest: got error %v, want that there is no export", err)
		}
		in.deliver(20) // the next one has other objects
		in.verify()
		does("export", dir)
		m, err := export.Verify(dir)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "objects", "*")); err != nil || len(left) != len(m.Objects) {
			t.Errorf("got objects %v and error %v, want those of the export and none of the killed one", left, err)
		}
	})
	t.Run("S_003_06 "+manifestDurable, func(t *testing.T) {
		before, err := export.Verify(dir)
		if err != nil {
			t.Fatal(err)
		}
		in.deliver(20)
		in.verify()
		dies(manifestDurable, "export", dir)
		after, err := export.Verify(dir)
		if err != nil || after.Part != before.Part {
			t.Errorf("killed before its pointer: got error %v, %d offers, want the export from before with %d", err, after.Offers, before.Offers)
		}
		does("export", dir)
		if after, err = export.Verify(dir); err != nil || after.Digest == before.Digest {
			t.Errorf("got error %v and digest %s, want the new one", err, after.Digest)
		}
	})
}
