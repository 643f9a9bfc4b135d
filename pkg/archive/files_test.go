package archive_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/archive"
)

// openFiles opens a store in a new folder; list names the files in it.
func openFiles(t *testing.T) (files *archive.Files, list func() []string) {
	t.Helper()
	dir := t.TempDir()
	files = reopen(t, dir)
	return files, func() []string { return listFiles(t, dir) }
}

func put(t *testing.T, s archive.Store, name, content string) error {
	t.Helper()
	return s.Put(t.Context(), name, strings.NewReader(content), int64(len(content)))
}

func get(t *testing.T, s archive.Store, name string) (content []byte, err error) {
	t.Helper()
	r, err := s.Get(t.Context(), name, 0)
	if err != nil {
		return nil, err
	}
	content, err = io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}

func reopen(t *testing.T, dir string) *archive.Files {
	t.Helper()
	files, err := archive.OpenFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	return files
}

func listFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(dir)+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestNamesThatLeaveTheStoreAreRefused(t *testing.T) {
	files, list := openFiles(t)
	for _, name := range []string{
		"", "alone", "/t1/a", "../t1/a", "t1/../a", "t1/./a", "t1//a", "t1/a/", ".tmp/a", "t1\\a/b", "t1/a\x00",
	} {
		if err := put(t, files, name, "x"); err == nil || !strings.Contains(err.Error(), "object name") {
			t.Errorf("put %q: got %v, want it refused for its name", name, err)
		}
		if _, err := get(t, files, name); err == nil || !strings.Contains(err.Error(), "object name") {
			t.Errorf("get %q: got %v, want it refused for its name", name, err)
		}
	}
	if got := list(); len(got) != 0 {
		t.Errorf("got files %v, want none", got)
	}
}

func TestAFolderThatLeadsOutIsNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	files := reopen(t, dir)
	if err := os.Symlink(outside, filepath.Join(dir, "t1")); err != nil {
		t.Fatal(err)
	}
	if err := put(t, files, "t1/a/b", "x"); err == nil {
		t.Error("an object was put through a link that leaves the store")
	}
	if got := listFiles(t, outside); len(got) != 0 {
		t.Errorf("got files outside: %v", got)
	}
}

// A killed process leaves a temporary file; a process that is at work has one, too.
func TestTemporaryFilesAreNoObjects(t *testing.T) {
	dir := t.TempDir()
	a := archive.New(reopen(t, dir), &keys{"k1"})
	for name, age := range map[string]time.Duration{"killed": 2 * time.Hour, "at-work": time.Minute} {
		path := filepath.Join(dir, ".tmp", name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if ref := mustWrite(t, a, pack()); ref.Reused {
		t.Error("a temporary file was taken for the object")
	}
	reopen(t, dir)
	got := slices.DeleteFunc(listFiles(t, dir), func(name string) bool { return strings.HasPrefix(name, "demo/") })
	if want := []string{".tmp/at-work"}; !slices.Equal(got, want) {
		t.Errorf("got temporary files %v, want %v", got, want)
	}
}

func TestAPutThatFailsLeavesNoNameAndCanBeDoneAgain(t *testing.T) {
	dir := t.TempDir()
	a := archive.New(reopen(t, dir), &keys{"k1"})
	temp := filepath.Join(dir, ".tmp")
	if err := os.Remove(temp); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write(t.Context(), pack()); err == nil {
		t.Error("got a write without a place for its temporary file")
	}
	if got := listFiles(t, dir); len(got) != 0 {
		t.Errorf("got files %v, want none", got)
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, a, pack())
	if got := listFiles(t, dir); len(got) != 1 {
		t.Errorf("got files %v, want the object alone", got)
	}
}
