package export

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/view"
)

// add writes so many offers, of which each is but a line here.
func add(t *testing.T, w *Writer, n int) {
	t.Helper()
	c := &view.Change{}
	c.Winner.Key = offer.Key{Tenant: "t1", Account: "ACC-1", Record: "A"}
	for range n {
		if err := w.Add(c); err != nil {
			t.Fatal(err)
		}
	}
}

// die leaves a writer as the kernel does when its process is killed.
func die(t *testing.T, w *Writer) {
	t.Helper()
	err := errors.Join(w.lock.Close(), w.root.Close())
	if w.open != nil {
		err = errors.Join(err, w.open.file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, dir string) *Writer {
	t.Helper()
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func finish(t *testing.T, w *Writer) {
	t.Helper()
	if err := errors.Join(w.Finish(view.Manifest{}), w.Close()); err != nil {
		t.Fatal(err)
	}
}

// files are all below a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestTheNextExportRemovesWhatAKilledOneLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exported")
	w := create(t, dir)
	add(t, w, 1)
	finish(t, w)
	whole := files(t, dir)

	others := []string{".export-notes", "manifests.old", "README", "objects/.keep", "objects/" + strings.Repeat("a", 64) + ".json"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	killed := create(t, dir)
	add(t, killed, 2)
	if err := killed.seal(); err != nil {
		t.Fatal(err)
	}
	sealed := killed.list[0].Name
	add(t, killed, 3)
	half := killed.open.temp
	pointer := newTemp(path.Dir(current))
	if err := os.WriteFile(filepath.Join(dir, pointer), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	beside := create(t, dir) // while it is at work
	if left := files(t, dir); !slices.Contains(left, sealed) || !slices.Contains(left, half) || !slices.Contains(left, pointer) {
		t.Fatalf("got %v, want all that a writer at work has written", left)
	}
	die(t, killed)
	if err := beside.Close(); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(whole, others)
	slices.Sort(want)
	next := create(t, dir)
	if got := files(t, dir); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
}

// Where a manifest cannot be read, nobody knows what it names.
func TestNoObjectIsRemovedBesideAManifestThatCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exported")
	killed := create(t, dir)
	add(t, killed, 1)
	if err := killed.seal(); err != nil {
		t.Fatal(err)
	}
	die(t, killed)
	if err := os.WriteFile(filepath.Join(dir, manifests, "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := create(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); !slices.Contains(got, killed.list[0].Name) {
		t.Errorf("got %v, want %s among them", got, killed.list[0].Name)
	}
}
