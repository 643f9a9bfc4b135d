package relay

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/postgres"
)

// What a child is told by its environment.
const childDSN, childBroker, childPrefix = "OFFERLOG_TEST_RELAY_DSN", "OFFERLOG_TEST_RELAY_BROKER", "OFFERLOG_TEST_RELAY_PREFIX"

// beRelay is the child: it relays until it is killed.
func beRelay() bool {
	dsn := os.Getenv(childDSN)
	if dsn == "" {
		return false
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	pool, err := postgres.Open(context.Background(), dsn, 8)
	if err == nil {
		cluster := kafka.Cluster{Brokers: []string{os.Getenv(childBroker)}, Prefix: os.Getenv(childPrefix)}
		// It prunes all the time, and is missed soon.
		err = New(pool, cluster, Config{Lease: 500 * time.Millisecond, Prune: time.Millisecond, SlotBytes: 1}, log).Run(context.Background())
	}
	log.Error("the child ends by itself", "error", err)
	return true
}

// buildWithFaults builds this test with fault points.
func buildWithFaults(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "relay.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "faults", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with fault points: %v: %s", err, out)
	}
	return program
}

// A child is a relay in a process of its own.
type child struct {
	*exec.Cmd
	log  *logbook
	died chan error
}

func (w *world) startChild(program, faults string) *child {
	w.t.Helper()
	c := &child{Cmd: exec.CommandContext(w.t.Context(), program), log: &logbook{}, died: make(chan error, 1)}
	c.Env = append(os.Environ(), childDSN+"="+w.dsn, childBroker+"="+w.cluster.Brokers[0], childPrefix+"="+w.cluster.Prefix, "OFFERLOG_FAULT="+faults)
	c.Stderr = c.log
	w.must(c.Start())
	go func() { c.died <- c.Wait() }()
	w.t.Cleanup(func() {
		_ = c.Process.Kill() // it may be gone already
		if w.t.Failed() {
			w.t.Logf("the child's log:\n%s", c.log)
		}
	})
	return c
}

func TestKilledAnywhereARelayLeavesNothingOutAndNothingTwice(t *testing.T) {
	program := buildWithFaults(t)
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(2)
		for _, point := range fault.Points() {
			if !strings.HasPrefix(point, "relay.") && !strings.HasPrefix(point, "offers.") {
				continue
			}
			t.Run(point, func(t *testing.T) {
				defer func(outer testing.TB) { w.t = outer }(w.t)
				w.t = t
				for _, l := range w.lanes {
					w.store(l, strings.Repeat("os", 20)+"cc")
				}
				c := w.startChild(program, point+"=kill")
				select {
				case err := <-c.died:
					exit, ok := errors.AsType[*exec.ExitError](err)
					if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || !strings.Contains(c.log.String(), "fault: "+point+": kill") {
						t.Fatalf("the child ended with %v, want it killed at its fault", err)
					}
				case <-time.After(patience):
					t.Fatal("the child never came to its fault")
				}
				for _, l := range w.lanes {
					w.store(l, "oc")
				}
				_, stop := w.start(Config{})
				w.settle()
				w.verify()
				stop()
			})
		}
	})
}

func TestAPausedRelayIsFencedWhenItWakes(t *testing.T) {
	program := buildWithFaults(t)
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(1)
		w.store(w.lanes[0], "oosc")
		c := w.startChild(program, "relay.before_end_txn=stop")
		w.eventually("the child is paused in its transaction", func() bool { return strings.Contains(c.log.String(), "fault: relay.before_end_txn: stop") })
		_, stop := w.start(Config{})
		w.settle()
		w.verify()
		w.store(w.lanes[0], "os")
		w.settle()
		w.must(c.Process.Signal(syscall.SIGCONT))
		w.eventually("the child notices that the lane is another's", func() bool { return strings.Contains(c.log.String(), "another process has taken the lane") })
		fenced := regexp.MustCompile(`commit the events 1 to 4: .*(INVALID_PRODUCER_EPOCH|PRODUCER_FENCED)`)
		w.eventually("the child's commit is refused", func() bool { return fenced.MatchString(c.log.String()) })
		stop()
		w.verify()
		if got := w.cursors()[w.lanes[0]]; got != 6 {
			t.Errorf("the log's cursor: got %d, want 6", got)
		}
	})
}
