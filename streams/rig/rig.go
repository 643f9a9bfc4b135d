// Package rig gives the tests real servers: PostgreSQL, Apache Kafka, and a fake Kafka where faults are injected.
//
// A server is, in this order, the one that the environment names (OFFERLOG_TEST_POSTGRES, OFFERLOG_TEST_KAFKA), a
// container where a Docker engine answers, or a program of this machine. Each test process starts what its tests ask
// for, once, and Main stops it. The servers that rig starts are made for speed and lose their data with the machine.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// startTimeout bounds the start of a server, the download of its image or jars included.
const startTimeout = 5 * time.Minute

// Main runs the tests of a package and stops the servers that they started; every package whose tests ask rig for one
// has it as its TestMain. Each of children is tried first: it returns true when this process was started to be a child
// of a test and has done its work. Main does not return.
func Main(m *testing.M, children ...func() bool) {
	for _, serve := range children {
		if serve() {
			os.Exit(0)
		}
	}
	active.Store(true)
	code := m.Run()
	if err := servers.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// active says that Main is there to stop what is started.
var active atomic.Bool

// requireMain fails a test whose package would leave servers behind.
func requireMain(t testing.TB) {
	t.Helper()
	if !active.Load() {
		t.Fatal("rig: this package has no TestMain that calls rig.Main")
	}
}

// servers is what this process has started.
var servers stack

// A stack undoes what was done, the latest first.
type stack struct {
	mu   sync.Mutex
	undo []func(context.Context) error
}

func (s *stack) push(undo func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undo = append(s.undo, undo)
}

func (s *stack) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i](ctx))
	}
	s.undo = nil
	return errors.Join(errs...)
}

// temporary makes a folder that lives as long as the servers. Every user can enter it: as root, PostgreSQL runs as
// another one.
func temporary() (string, error) {
	dir, err := os.MkdirTemp(memory("/dev/shm"), "offerlog-test-")
	if err != nil {
		return "", err
	}
	servers.push(func(context.Context) error { return os.RemoveAll(dir) })
	return dir, os.Chmod(dir, 0o755)
}

// room is the free memory that the folders of the servers want; the tests of one package take up to a quarter of it.
const room = 1 << 30

// memory is folder where it is one in memory with enough room and programs in it may run, else "" for the usual one. The
// tests make and drop hundreds of databases of hundreds of files each, and to make a file ext4 passes over each one that was
// removed in the last minute: that took half of the server's time. The long campaigns hold more than fits.
func memory(folder string) string {
	const tmpfs, noexec = 0x01021994, 0x8
	var fs syscall.Statfs_t
	if os.Getenv("OFFERLOG_SOAK") != "" || syscall.Statfs(folder, &fs) != nil || fs.Type != tmpfs || fs.Flags&noexec != 0 ||
		fs.Bavail*uint64(fs.Bsize) < room { //nolint:gosec // a block has a size
		return ""
	}
	return folder
}

// Folder makes a folder for what the tests of this process share. It lives as long as the servers.
func Folder(t testing.TB) string {
	t.Helper()
	requireMain(t)
	dir, err := temporary()
	if err != nil {
		t.Fatalf("rig: make a folder: %v", err)
	}
	return dir
}

// engine reports whether a Docker engine answers. It is asked once and has two seconds.
var engine = sync.OnceValue(func() bool {
	answer := make(chan bool, 1)
	go func() {
		provider, err := testcontainers.NewDockerProvider()
		answer <- err == nil && provider.Health(context.Background()) == nil
	}()
	select {
	case healthy := <-answer:
		return healthy
	case <-time.After(2 * time.Second):
		return false
	}
})

// freePorts are n different ports on 127.0.0.1 that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
