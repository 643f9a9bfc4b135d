package export

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"syscall"
)

// Names that nobody but this package gives.
var (
	tempName   = regexp.MustCompile(`^\.export-[A-Z2-7]{26}$`)
	objectName = regexp.MustCompile(`^[0-9a-f]{64}\.ndjson$`)
)

// newTemp is the name of a file that is half written.
func newTemp(folder string) string { return path.Join(folder, ".export-"+rand.Text()) }

// enter marks the folder as one that is being written to, until the file that it returns is closed: by whoever leaves, or by the death
// of the process. Who finds no other writer there removes what dead ones have left; beside one at work nothing is removed.
func enter(root *os.Root) (lock *os.File, err error) {
	if lock, err = root.Open("."); err != nil {
		return nil, err
	}
	err = flock(lock, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = sweep(root)
	}
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) {
		err = flock(lock, syscall.LOCK_SH)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}

// sweep removes what no reader can come to: half-written files, and objects that no manifest names. An export of which the manifest is
// there stays, whether it was ever pointed to or not; so does whatever has another name.
func sweep(root *os.Root) error {
	named, err := objectsNamed(root)
	if err != nil {
		return err
	}
	for _, folder := range []string{".", objects, manifests} {
		entries, err := fs.ReadDir(root.FS(), folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(folder, e.Name())
			half, whole := tempName.MatchString(e.Name()), folder == objects && objectName.MatchString(e.Name())
			if !e.Type().IsRegular() || !half && (!whole || named == nil || named[name]) {
				continue
			}
			if err := root.Remove(name); err != nil {
				return fmt.Errorf("remove what an export before has left: %w", err)
			}
		}
	}
	return nil
}

// objectsNamed are the objects of all manifests; nil where one of them cannot be read, so that nobody knows what it names.
func objectsNamed(root *os.Root) (map[string]bool, error) {
	entries, err := fs.ReadDir(root.FS(), manifests)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, e := range entries {
		if tempName.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		text, err := root.ReadFile(path.Join(manifests, e.Name()))
		if err != nil {
			return nil, err
		}
		var m Manifest
		if json.Unmarshal(text, &m) != nil {
			return nil, nil //nolint:nilerr // that is the answer: whoever verifies the export is told what is wrong
		}
		for _, o := range m.Objects {
			named[o.Name] = true
		}
	}
	return named, nil
}
