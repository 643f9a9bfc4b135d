package chaos

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func TestMain(m *testing.M) { pipeline.Main(m) }

// A build is offerlog as go build makes it, once for all tests.
type build struct {
	tags string
	once sync.Once
	file string
	err  error
	said []byte
}

var (
	shipped = &build{}
	faulty  = &build{tags: "faults"}
)

// program returns the file of the binary.
func (b *build) program(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		b.file = filepath.Join(rig.Folder(t), "offerlog")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", b.tags, "-o", b.file, "./cmd/offerlog")
		cmd.Dir = filepath.Join("..", "..")
		b.said, b.err = cmd.CombinedOutput()
	})
	if b.err != nil {
		t.Fatalf("build offerlog with tags %q: %v: %s", b.tags, b.err, b.said)
	}
	return b.file
}

// command is a run of the binary that ends by itself.
func (b *build) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), b.program(t), args...)
}
