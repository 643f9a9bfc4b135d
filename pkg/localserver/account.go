package localserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// An account is the user that PostgreSQL runs as. The zero account is the user of this process.
type account struct {
	name       string
	credential *syscall.Credential
}

// unprivileged is the user of this process, unless that is root: then postgres, or nobody where there is no postgres.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		return account{name, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody: start offerlog as another user")
}

// command is exec.CommandContext for a program that runs as this account.
func (a account) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
	return cmd
}

// own gives the files to the account.
func (a account) own(names ...string) error {
	if a.credential == nil {
		return nil
	}
	for _, name := range names {
		if err := os.Lchown(name, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// ownTree gives root and all below it to the account.
func (a account) ownTree(root string) error {
	return filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return a.own(name)
	})
}

// enter reports whether the account can work in dir, by running a program there; the error names the folder that is
// closed to it.
func (a account) enter(ctx context.Context, programs programs, dir string) error {
	if a.credential == nil {
		return nil
	}
	try := func(dir string) error {
		cmd := a.command(ctx, programs.path("postgres"), "--version")
		cmd.Dir = dir
		return cmd.Run()
	}
	if try(dir) == nil {
		return nil
	}
	if err := try("/"); err != nil {
		return fmt.Errorf("run %s as %s: %w", programs.path("postgres"), a.name, err)
	}
	closed := dir
	for try(filepath.Dir(closed)) != nil {
		closed = filepath.Dir(closed)
	}
	return fmt.Errorf("PostgreSQL refuses to run as root and runs as %s, who cannot enter %s: "+
		"open it (chmod o+x %s), or choose a data folder outside of it, such as one in /var/lib", a.name, closed, closed)
}
