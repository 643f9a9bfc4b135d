package dataref

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A Folder is a place of this process alone for data that goes with it.
type Folder struct {
	path string
	lock *os.File
}

const (
	folderPattern = "spool-*"
	lockFile      = "lock"
)

// OpenFolder makes a folder in dir, which processes may share, and removes those that processes which are gone left there: each
// holds a lock on its own, which the system releases however it ends.
func OpenFolder(dir string) (*Folder, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open a spool folder: %w", err)
	}
	return f, nil
}

func openFolder(dir string) (f *Folder, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	// One at a time, so that nobody removes a folder whose lock is not taken yet.
	turn, err := lock(dir, syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, turn.Close()) }()
	found, err := filepath.Glob(filepath.Join(dir, folderPattern))
	if err != nil {
		return nil, err
	}
	for _, old := range found {
		if err := sweep(old); err != nil {
			return nil, err
		}
	}
	f = &Folder{}
	if f.path, err = os.MkdirTemp(dir, folderPattern); err != nil {
		return nil, err
	}
	f.lock, err = lock(f.path, syscall.LOCK_EX)
	return f, err
}

// private refuses a folder that others can look into, or have put there: it may lie where everybody writes.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: want a folder of this user that nobody else can read (mode 0700)", dir)
	}
	return nil
}

// lock waits for the lock of a folder, or with LOCK_NB does not.
func lock(folder string, how int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// sweep removes a folder, unless its process lives.
func sweep(folder string) error {
	held, err := lock(folder, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(folder), held.Close())
}

// Path is where the folder is.
func (f *Folder) Path() string { return f.path }

// Close removes the folder with all that is in it.
func (f *Folder) Close() error { return errors.Join(os.RemoveAll(f.path), f.lock.Close()) }
