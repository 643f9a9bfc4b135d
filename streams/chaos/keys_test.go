package chaos

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/offerlog/offerlog/pkg/archive"
)

const rewrapHalf = "keys.rewrap_half"

// rotate runs offerlog keys rotate --master in the host's folder.
func (in *installation) rotate(b *build, faults string) (out string, killed bool) {
	in.t.Helper()
	cmd := b.command(in.t, "keys", "rotate", "--master", "--json", "--postgres", in.DSN, "--archive", in.location, "--archive-key-file", filepath.Join(in.host, "archive.key"))
	cmd.Dir, cmd.Env = in.host, append(os.Environ(), "OFFERLOG_FAULT="+faults)
	text, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed = ok && status.Signal() == syscall.SIGKILL
	if err != nil && !killed {
		in.t.Fatalf("rotate: %v: %s", err, text)
	}
	return string(text), killed
}

// writeKeys puts another key file in place while processes read it.
func (in *installation) writeKeys(lines ...[]byte) {
	in.t.Helper()
	path := filepath.Join(in.host, "archive.key")
	if err := os.WriteFile(path+".new", append(bytes.Join(lines, []byte("\n")), '\n'), 0o600); err != nil {
		in.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		in.t.Fatal(err)
	}
}

// A rotation of the master key is killed when half of the keys are sealed again. Nothing stops meanwhile: the stages go on, all
// evidence opens, and the next call does the rest.
func TestAKilledRotationGoesOn(t *testing.T) {
	in := newInstallation(t)
	stages := in.start(shipped, "", "ingest", "relay", "project")
	in.applyFeed()
	in.deliver(20) // of two tenants: what no feed expects is the system's
	in.verify()
	if err := archive.CreateMasterKey(filepath.Join(in.dir, "new.key")); err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(content)
	}
	old, fresh := read(filepath.Join(in.host, "archive.key")), read(filepath.Join(in.dir, "new.key"))
	in.writeKeys(old, fresh)
	in.writeKeys(fresh, old)
	if out, killed := in.rotate(faulty, rewrapHalf+"=kill"); !killed {
		t.Fatalf("the rotation was not killed: %s", out)
	}
	in.deliver(20)
	in.verify()
	if out, _ := in.rotate(shipped, ""); !strings.Contains(out, `{"keys":1}`) {
		t.Errorf("got %s, want the other key of two", out)
	}
	if out, _ := in.rotate(shipped, ""); !strings.Contains(out, `{"keys":0}`) {
		t.Errorf("got %s, want nothing left to do", out)
	}
	in.writeKeys(fresh)
	stages.stop()
	in.start(shipped, "", "ingest", "relay", "project")
	in.deliver(20)
	in.verify()
	if err := os.WriteFile(filepath.Join(in.dir, "old.key"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := archive.ReadKeyring(filepath.Join(in.dir, "old.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.NewPostgresKeys(in.Pool, ring).ByID(context.Background(), "t1", "k1"); err == nil {
		t.Error("the old master key still opens a tenant's key")
	}
}
