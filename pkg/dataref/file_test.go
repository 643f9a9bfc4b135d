package dataref

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/offerlog/offerlog/pkg/offer"
)

func TestAFileIsReadFromTheTenantsFolderAlone(t *testing.T) {
	mine, others, outside := t.TempDir(), t.TempDir(), t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(mine, "in"), 0o700),
		os.WriteFile(filepath.Join(mine, "in", "a b.csv"), []byte("mine"), 0o600),
		os.WriteFile(filepath.Join(mine, "large.csv"), make([]byte, 101), 0o600),
		os.WriteFile(filepath.Join(others, "a.csv"), []byte("theirs"), 0o600),
		os.WriteFile(filepath.Join(outside, "a.csv"), []byte("outside"), 0o600),
		os.Symlink(filepath.Join(mine, "in", "a b.csv"), filepath.Join(mine, "absolute.csv")),
		os.Symlink("in/a b.csv", filepath.Join(mine, "inside.csv")),
		os.Symlink(filepath.Join(outside, "a.csv"), filepath.Join(mine, "link.csv")),
		os.Symlink(outside, filepath.Join(mine, "folder")),
		syscall.Mkfifo(filepath.Join(mine, "pipe"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, Config{Roots: []Root{{"t1", mine}, {"t2", others}}, MaxBytes: 100})
	file := func(folder, name string) string { return "file://" + folder + "/" + name }
	for what, c := range map[string]struct{ uri, reason, want string }{
		"a file":                           {file(mine, "in/a%20b.csv"), "", "mine"},
		"a link that stays inside":         {file(mine, "inside.csv"), "", "mine"},
		"a file that is not there":         {file(mine, "b.csv"), offer.ReasonDatarefUnavailable, ""},
		"a file that is too large":         {file(mine, "large.csv"), offer.ReasonArtifactTooLarge, ""},
		"a file of another tenant":         {file(others, "a.csv"), offer.ReasonDatarefForbidden, ""},
		"a file outside":                   {file(outside, "a.csv"), offer.ReasonDatarefForbidden, ""},
		"a file of the system":             {"file:///etc/passwd", offer.ReasonDatarefForbidden, ""},
		"a way out":                        {file(mine, "../"+filepath.Base(outside)+"/a.csv"), offer.ReasonDatarefForbidden, ""},
		"a way out, encoded":               {file(mine, "%2e%2e/"+filepath.Base(outside)+"/a.csv"), offer.ReasonDatarefForbidden, ""},
		"a way out, its slash encoded":     {file(mine, "..%2f"+filepath.Base(outside)+"%2fa.csv"), offer.ReasonDatarefForbidden, ""},
		"a link that leads out":            {file(mine, "link.csv"), offer.ReasonDatarefForbidden, ""},
		"a folder that leads out":          {file(mine, "folder/a.csv"), offer.ReasonDatarefForbidden, ""},
		"a link with a full path":          {file(mine, "absolute.csv"), offer.ReasonDatarefForbidden, ""},
		"a folder":                         {file(mine, "in"), offer.ReasonDatarefForbidden, ""},
		"the folder of the tenant":         {"file://" + mine, offer.ReasonDatarefForbidden, ""},
		"a folder whose name begins alike": {"file://" + mine + "-2/a.csv", offer.ReasonDatarefForbidden, ""},
		"a pipe":                           {file(mine, "pipe"), offer.ReasonDatarefForbidden, ""},
		"another machine":                  {"file://host" + mine + "/in/a%20b.csv", offer.ReasonDatarefForbidden, ""},
		"a relative path":                  {"file:in/a.csv", offer.ReasonDatarefForbidden, ""},
		"a query":                          {file(mine, "in/a%20b.csv?x"), offer.ReasonDatarefForbidden, ""},
		"NUL in the name":                  {file(mine, "in/a%00b.csv"), offer.ReasonDatarefForbidden, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w.t = t
			if c.reason != "" {
				_ = w.wantFault(Ref{URI: c.uri}, c.reason)
			} else if got, fault := w.fetch(Ref{URI: c.uri}); fault != nil || got != c.want {
				t.Errorf("got %q, %v", got, fault)
			}
		})
	}
}

// bucket is a bucket by its objects' names.
type bucket map[string]string

func (b bucket) Get(_ context.Context, name string, _ int64) (io.ReadCloser, error) {
	content, ok := b[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(content)), nil
}

func TestAnObjectIsReadFromTheTenantsBucketAlone(t *testing.T) {
	w := newWorld(t, Config{MaxBytes: 100, Buckets: []Bucket{
		{"t1", "s3://drops/t1", bucket{"a b.csv": "mine", "in/a.csv": "mine", "large.csv": strings.Repeat("x", 101)}},
		{"t2", "s3://drops/t2", bucket{"a.csv": "theirs"}},
	}})
	for what, c := range map[string]struct{ uri, reason, want string }{
		"an object":                    {"s3://drops/t1/a%20b.csv", "", "mine"},
		"an object below":              {"s3://drops/t1/in/a.csv", "", "mine"},
		"an object that is not there":  {"s3://drops/t1/b.csv", offer.ReasonDatarefUnavailable, ""},
		"an object that is too large":  {"s3://drops/t1/large.csv", offer.ReasonArtifactTooLarge, ""},
		"an object of another tenant":  {"s3://drops/t2/a.csv", offer.ReasonDatarefForbidden, ""},
		"a way to it":                  {"s3://drops/t1/../t2/a.csv", offer.ReasonDatarefForbidden, ""},
		"another bucket":               {"s3://other/t1/a.csv", offer.ReasonDatarefForbidden, ""},
		"a prefix that begins alike":   {"s3://drops/t12/a.csv", offer.ReasonDatarefForbidden, ""},
		"the bucket itself":            {"s3://drops/t1/", offer.ReasonDatarefForbidden, ""},
		"a query":                      {"s3://drops/t1/in/a.csv?versionId=1", offer.ReasonDatarefForbidden, ""},
		"credentials in the reference": {"s3://key:secret@drops/t1/in/a.csv", offer.ReasonDatarefForbidden, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w.t = t
			if c.reason != "" {
				_ = w.wantFault(Ref{URI: c.uri}, c.reason)
			} else if got, fault := w.fetch(Ref{URI: c.uri}); fault != nil || got != c.want {
				t.Errorf("got %q, %v", got, fault)
			}
		})
	}
}

// unreachable is a bucket whose server does not answer: the client's error quotes the request.
type unreachable struct{}

func (unreachable) Get(_ context.Context, name string, _ int64) (io.ReadCloser, error) {
	return nil, fmt.Errorf("get in bucket drops: %w", &url.Error{Op: "Get", URL: "https://s3.example/drops/" + name, Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}})
}

func TestAFaultOfABucketDoesNotQuoteTheObject(t *testing.T) {
	w := newWorld(t, Config{Buckets: []Bucket{{"t1", "s3://drops", unreachable{}}}})
	fault := w.wantFault(Ref{URI: "s3://drops/swordfish/a.csv"}, offer.ReasonDatarefUnavailable)
	if text := fault.Error(); strings.Contains(text, "swordfish") || !strings.Contains(text, "connection refused") {
		t.Errorf("got %q, want why and nothing of the path", text)
	}
}

func TestARootThatDoesNotExistIsNoRoot(t *testing.T) {
	if _, err := Open(Config{Roots: []Root{{"t1", filepath.Join(t.TempDir(), "none")}}}, t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAFolderThatOthersCanReadIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	open, link := filepath.Join(dir, "open"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o755), os.Symlink(t.TempDir(), link)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link} {
		if _, err := OpenFolder(dir); err == nil {
			t.Errorf("%s is used", dir)
		}
	}
}

func TestFoldersOfProcessesThatAreGoneAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	gone := filepath.Join(dir, "spool-gone")
	if err := errors.Join(os.MkdirAll(gone, 0o700), os.WriteFile(filepath.Join(gone, "data-1"), []byte("left behind"), 0o600)); err != nil {
		t.Fatal(err)
	}
	first, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(first.Path(), "data-1"), []byte("in use"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what nobody holds is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(first.Path(), "data-1")); err != nil {
		t.Errorf("what is in use was removed: %v", err)
	}
	for _, f := range []*Folder{first, second} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(f.Path()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a folder that was closed is still there: %v", err)
		}
	}
}
