//go:build faults

package fault

import (
	"cmp"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Point marks a place where the process may be killed.
func Point(name string) {
	if err := Err(name); err != nil {
		panic(fmt.Sprintf("fault: %s has no error to return: use another action", name))
	}
}

// Err marks a place where the process may be killed, or where something may fail.
func Err(name string) error {
	f := active[name]
	if f == nil {
		if !slices.Contains(Points(), name) {
			panic("fault: " + name + " is not listed in Points")
		}
		return nil
	}
	if f.hits.Add(1) != f.at {
		return nil
	}
	fmt.Fprintf(os.Stderr, "fault: %s: %s at hit %d\n", name, f.action, f.at)
	switch f.action {
	case "kill":
		send(syscall.SIGKILL)
		select {} // another thread may be the one that the signal reaches
	case "stop":
		woken := make(chan os.Signal, 1)
		signal.Notify(woken, syscall.SIGCONT)
		send(syscall.SIGSTOP)
		<-woken // likewise
		signal.Stop(woken)
	case "sleep":
		time.Sleep(f.wait)
	case "panic":
		panic("fault: " + name)
	case "error":
		return fmt.Errorf("%w at %s", ErrInjected, name)
	}
	return nil
}

func send(s syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic(fmt.Sprintf("fault: send %s to myself: %v", s, err))
	}
}

// A planned fault is what happens at one point.
type planned struct {
	action string
	at     int64         // the hit at which it happens
	wait   time.Duration // of sleep
	hits   atomic.Int64
}

var active = mustParse(os.Getenv("OFFERLOG_FAULT"))

func mustParse(spec string) map[string]*planned {
	faults, err := parse(spec)
	if err != nil {
		panic(fmt.Sprintf("fault: read OFFERLOG_FAULT: %v", err))
	}
	return faults
}

func parse(spec string) (map[string]*planned, error) {
	faults := map[string]*planned{}
	if spec == "" {
		return faults, nil
	}
	for one := range strings.SplitSeq(spec, ",") {
		name, action, _ := strings.Cut(one, "=")
		if !slices.Contains(Points(), name) {
			return nil, fmt.Errorf("%q is no point", name)
		}
		if faults[name] != nil {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		f, err := parseAction(action)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		faults[name] = f
	}
	return faults, nil
}

func parseAction(s string) (*planned, error) {
	action, rest, _ := strings.Cut(s, ":")
	f := &planned{action: action}
	switch action {
	case "kill", "stop", "panic", "error":
	case "sleep":
		var wait string
		var err error
		wait, rest, _ = strings.Cut(rest, ":")
		if f.wait, err = time.ParseDuration(wait); err != nil {
			return nil, fmt.Errorf("%q: sleep takes a duration: %w", s, err)
		}
	default:
		return nil, fmt.Errorf("%q is no action: want kill, stop, sleep, panic or error", action)
	}
	var err error
	if f.at, err = strconv.ParseInt(cmp.Or(rest, "1"), 10, 64); err != nil || f.at < 1 {
		return nil, fmt.Errorf("%q: want the number of the hit, from 1", s)
	}
	return f, nil
}
