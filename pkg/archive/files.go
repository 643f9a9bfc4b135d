package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/offerlog/offerlog/pkg/fault"
)

// tempFolder holds objects that are being written. An object's name never begins with a dot.
const tempFolder = ".tmp"

// tempAge is after how long a temporary file counts as left behind by a process that was killed.
const tempAge = time.Hour

// Files is a Store in a folder of the file system, which several processes may share. The object
// tenant/topic/0/5-9/digest is the file tenant/topic/0/5-9.digest, so that the objects of a partition share one folder to
// sync. Nothing but complete, synced files ever has an object's name: a kill leaves a temporary file at most.
type Files struct {
	root *os.Root

	mu      sync.Mutex
	durable map[string]bool // folders whose names this process knows to be synced
}

// OpenFiles opens the store in folder dir, makes it if need be, and removes temporary files that are more than an hour
// old.
func OpenFiles(dir string) (*Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open archive folder: %w", err)
	}
	if err := syncFolder(filepath.Dir(filepath.Clean(dir))); err != nil {
		return nil, fmt.Errorf("open archive folder %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open archive folder: %w", err)
	}
	f := &Files{root: root, durable: map[string]bool{".": true}}
	if err := f.folder(tempFolder); err != nil {
		return nil, errors.Join(fmt.Errorf("open archive folder %s: %w", dir, err), root.Close())
	}
	if err := f.sweep(time.Now().Add(-tempAge)); err != nil {
		return nil, errors.Join(fmt.Errorf("open archive folder %s: %w", dir, err), root.Close())
	}
	return f, nil
}

// Close releases the folder; the objects stay.
func (f *Files) Close() error { return f.root.Close() }

// Put implements Store: temporary file, sync, hard link to the name, sync of the folder.
func (f *Files) Put(_ context.Context, name string, content io.Reader, size int64) (err error) {
	file, err := filename(name)
	if err != nil {
		return err
	}
	if err := f.folder(path.Dir(file)); err != nil {
		return err
	}
	temp := tempFolder + "/" + rand.Text()
	defer func() {
		if e := f.root.Remove(temp); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	if err := f.write(temp, content, size); err != nil {
		return err
	}
	err = f.root.Link(temp, file)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	taken := err != nil
	// Also where the name is taken: whoever took it may have been killed before this.
	if err := f.sync(path.Dir(file)); err != nil {
		return err
	}
	if taken {
		return ErrExists
	}
	fault.Point("ingest.artifact_synced")
	return nil
}

func (f *Files) write(temp string, content io.Reader, size int64) error {
	w, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, content)
	if err == nil && n != size {
		err = fmt.Errorf("got %d bytes of content, want %d", n, size)
	}
	if err == nil {
		fault.Point("ingest.artifact_written")
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

// Get implements Store.
func (f *Files) Get(_ context.Context, name string, offset int64) (io.ReadCloser, error) {
	file, err := filename(name)
	if err != nil {
		return nil, err
	}
	r, err := f.root.Open(file)
	if err != nil {
		return nil, err
	}
	if _, err := r.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Remove implements Store. A crash may bring the object back, which is as harmless as its late removal.
func (f *Files) Remove(_ context.Context, name string) error {
	file, err := filename(name)
	if err != nil {
		return err
	}
	if err := f.root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Names implements Store.
func (f *Files) Names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := fs.WalkDir(f.root.FS(), ".", func(file string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
				return nil
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if d.IsDir() {
				if strings.HasPrefix(d.Name(), ".") && file != "." {
					return fs.SkipDir // no object's
				}
				return nil
			}
			dot := strings.LastIndexByte(file, '.')
			if dot < 0 || strings.Contains(file[dot:], "/") {
				return nil // no object's name has become that
			}
			if !yield(file[:dot]+"/"+file[dot+1:], nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", fmt.Errorf("list the archive: %w", err))
		}
	}
}

// Ready implements Store: a file can be made in the folder.
func (f *Files) Ready(context.Context) error {
	temp := tempFolder + "/" + rand.Text()
	w, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(w.Close(), f.root.Remove(temp))
}

// folder makes a folder and its parents, with their names durable. Finding one is not enough: whoever made it may have
// been killed before the sync, so each process syncs each folder's parent once.
func (f *Files) folder(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ensure(dir)
}

func (f *Files) ensure(dir string) error {
	if f.durable[dir] {
		return nil
	}
	parent := path.Dir(dir)
	if err := f.ensure(parent); err != nil {
		return err
	}
	if err := f.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := f.sync(parent); err != nil {
		return err
	}
	f.durable[dir] = true
	return nil
}

func (f *Files) sync(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *Files) sweep(before time.Time) error {
	entries, err := fs.ReadDir(f.root.FS(), tempFolder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.ModTime().Before(before) {
			err = f.root.Remove(tempFolder + "/" + e.Name())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may sweep, too
			return err
		}
	}
	return nil
}

// filename returns where an object lies; names that would lie elsewhere are refused.
func filename(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	dir, last := path.Split(name)
	return strings.TrimSuffix(dir, "/") + "." + last, nil
}

// checkName refuses what no object can be named.
func checkName(name string) error {
	if !fs.ValidPath(name) || !strings.Contains(name, "/") || name[0] == '.' || strings.ContainsAny(name, "\\\x00") {
		return fmt.Errorf("object name %q: want parts without . and .. and a tenant in front", name)
	}
	return nil
}
