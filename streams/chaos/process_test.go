package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/offerlog/offerlog/pkg/localserver"
)

// A process is one life of offerlog run.
type process struct {
	in    *installation
	name  string // of the binary, its roles and its fault
	cmd   *exec.Cmd
	child *localserver.Child
	log   string // its file
}

// start runs some of offerlog's roles, with what is to happen at its fault points.
func (in *installation) start(b *build, faults string, roles ...string) *process {
	in.t.Helper()
	p := &process{in: in, name: strings.Join(roles, ",") + " " + faults, log: filepath.Join(in.dir, fmt.Sprintf("%d.log", len(in.processes)))}
	log, err := os.Create(p.log) // a file, so that a killed process has said what it has said
	if err != nil {
		in.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.CommandContext(context.Background(), b.program(in.t), "run", "--roles", strings.Join(roles, ","), "--log-level", "debug",
		"--kafka", strings.Join(in.Cluster.Brokers, ","), "--kafka-prefix", in.Cluster.Prefix, "--postgres", in.DSN,
		"--archive", in.location, "--archive-endpoint", in.endpoint, "--archive-key-file", filepath.Join(in.host, "archive.key"))
	p.cmd.Dir = in.host
	p.cmd.Env = append(os.Environ(), "OFFERLOG_FAULT="+faults, "TMPDIR="+in.host, "HOME="+in.host, "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret")
	if faults != "" {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=1") // and so one worker of ingest: hits and transactions can be counted
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.child, err = localserver.StartChild(p.cmd, syscall.SIGKILL); err != nil {
		in.t.Fatal(err)
	}
	in.processes = append(in.processes, p)
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// said is what the process has written so far.
func (p *process) said() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		p.in.t.Fatal(err)
	}
	return string(content)
}

// hears waits until the process has written something.
func (p *process) hears(what string) {
	p.in.t.Helper()
	p.in.Until(fmt.Sprintf("%q from process %s", what, p.name), func(context.Context) (bool, error) {
		if strings.Contains(p.said(), what) {
			return true, nil
		}
		select {
		case <-p.child.Done():
			return false, fmt.Errorf("it has ended: %v", p.cmd.ProcessState)
		default:
			return false, nil
		}
	})
}

// diesOf waits until the process is killed by itself at a fault point.
func (p *process) diesOf(point string, hit int) {
	p.in.t.Helper()
	<-p.child.Done()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		p.in.t.Fatalf("process %s ended with %v, want it killed", p.name, p.cmd.ProcessState)
	}
	if want := fmt.Sprintf("fault: %s: kill at hit %d", point, hit); !strings.Contains(p.said(), want) {
		p.in.t.Fatalf("process %s was killed and did not say %q", p.name, want)
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.in.t.Helper()
	if err := p.child.Stop(context.Background(), syscall.SIGKILL, syscall.SIGKILL); err != nil {
		p.in.t.Fatal(err)
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		p.in.t.Fatalf("process %s ended with %v before it was killed", p.name, p.cmd.ProcessState)
	}
}

// stop ends the process as an operator does: it finishes what it has in hand.
func (p *process) stop() {
	p.in.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := errors.Join(p.child.Stop(ctx, syscall.SIGTERM, syscall.SIGKILL), ctx.Err()); err != nil || !p.cmd.ProcessState.Success() {
		p.in.t.Fatalf("process %s ended with %v, %v", p.name, p.cmd.ProcessState, err)
	}
}

// wake lets a stopped process go on.
func (p *process) wake() {
	p.in.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.in.t.Fatal(err)
	}
}

// stopped waits until the process has stopped itself at a fault point.
func (p *process) stopped(point string, hit int) {
	p.in.t.Helper()
	p.hears(fmt.Sprintf("fault: %s: stop at hit %d", point, hit))
	stat := filepath.Join("/proc", fmt.Sprint(p.pid()), "stat")
	p.in.Until("process "+p.name+" to stand still", func(context.Context) (bool, error) {
		content, err := os.ReadFile(stat)
		if err != nil {
			return false, err
		}
		_, state, _ := strings.Cut(string(content), ") ")
		return strings.HasPrefix(state, "T"), nil
	})
}
