package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// An event is one line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build that failed
	Test       string // empty: about the package
	Elapsed    float64
	Output     string
}

// read calls see for each event of a `go test -json` stream. A line that is no event becomes output of the build.
func read(r io.Reader, see func(event)) error {
	lines := bufio.NewReader(r) // not a Scanner: a line of output has no greatest length
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				e = event{Action: "build-output", Output: line}
			}
			see(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the test results: %w", err)
		}
	}
}

// How a test ended, in the words of the stream.
const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
)

// A test is one run of a test or subtest; its name is empty where a package failed and none of its tests did.
type test struct {
	pkg, name string
	parent    *test
	outcome   string // empty while it runs
	reason    string // why it was skipped
	output    []string
	leaf      bool // no subtest has started
	below     tally
}

// A tally counts tests. A test with subtests is not counted beside them, unless it failed and none of them did.
type tally struct {
	passed, failed, skipped int
}

func (t *tally) add(outcome string) {
	switch outcome {
	case passed:
		t.passed++
	case failed:
		t.failed++
	case skipped:
		t.skipped++
	}
}

func (t *tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// counted says whether an ended test counts.
func (t *test) counted() bool {
	return t.leaf || t.outcome == failed && t.below.failed == 0
}

// A pkg is one package under test.
type pkg struct {
	name    string
	latest  map[string]*test // by name, and by run where a test runs more than once
	ended   []*test
	output  []string
	outcome string // empty while it runs
	elapsed float64
	tally   tally
}

// packages are all packages of a stream, in the order in which they started.
type packages struct {
	byName map[string]*pkg
	all    []*pkg
}

func (ps *packages) get(name string) *pkg {
	if p, ok := ps.byName[name]; ok {
		return p
	}
	p := &pkg{name: name, latest: make(map[string]*test)}
	if ps.byName == nil {
		ps.byName = make(map[string]*pkg)
	}
	ps.byName[name] = p
	ps.all = append(ps.all, p)
	return p
}

// add takes one event and returns its package with the tests that ended by it.
func (ps *packages) add(e event) (*pkg, []*test) {
	p := ps.get(e.Package)
	before := len(p.ended)
	switch {
	case e.Test == "":
		switch e.Action {
		case "output":
			p.output = append(p.output, e.Output)
		case passed, failed, skipped:
			p.end(e.Action, e.Elapsed)
		}
	case e.Action == "run":
		p.start(e.Test)
	case e.Action == "output":
		p.test(e.Test).output = append(p.test(e.Test).output, e.Output)
	case e.Action == passed, e.Action == failed, e.Action == skipped:
		p.endTest(p.test(e.Test), e.Action)
	}
	return p, p.ended[before:]
}

func (p *pkg) test(name string) *test {
	if t, ok := p.latest[name]; ok {
		return t
	}
	return p.start(name)
}

func (p *pkg) start(name string) *test {
	t := &test{pkg: p.name, name: name, leaf: true}
	// A subtest's own name may hold slashes, so its parent is the longest name that is known.
	for above := name; t.parent == nil; {
		slash := strings.LastIndexByte(above, '/')
		if slash < 0 {
			break
		}
		above = above[:slash]
		t.parent = p.latest[above]
	}
	if t.parent != nil {
		t.parent.leaf = false
	}
	p.latest[name] = t
	return t
}

func (p *pkg) endTest(t *test, outcome string) {
	t.outcome = outcome
	switch outcome {
	case passed:
		t.output = nil
	case skipped:
		t.reason = skipReason(t.output)
	}
	p.ended = append(p.ended, t)
	if !t.counted() {
		return
	}
	p.tally.add(outcome)
	for above := t.parent; above != nil; above = above.parent {
		above.below.add(outcome)
	}
}

// end closes the package. What still runs then was cut off by a panic, an exit or a timeout, and has failed, the
// innermost tests first.
func (p *pkg) end(outcome string, elapsed float64) {
	p.outcome, p.elapsed = outcome, elapsed
	for {
		cut := p.innermostRunning()
		if cut == nil {
			break
		}
		p.endTest(cut, failed)
	}
	if outcome == failed && p.tally.failed == 0 {
		p.endTest(&test{pkg: p.name, leaf: true}, failed)
	}
}

func (p *pkg) innermostRunning() *test {
	var found *test
	for _, t := range p.latest {
		if t.outcome != "" {
			continue
		}
		if found == nil || len(t.name) > len(found.name) || len(t.name) == len(found.name) && t.name < found.name {
			found = t
		}
	}
	return found
}

// missing are the events that a stream owes when it breaks off: an end for each package that it left open.
func (ps *packages) missing() []event {
	var owed []event
	for _, p := range ps.all {
		if p.outcome == "" {
			owed = append(owed,
				event{Action: "output", Package: p.name, Output: "the results end before this package did\n"},
				event{Action: failed, Package: p.name})
		}
	}
	return owed
}

// logLine is what t.Log and t.Skip write: place, colon, text.
var logLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// skipReason is the text of the last line that a skipped test logged, up to a colon: what follows one is detail, such
// as the error that a server's absence caused, and would make two reasons of one.
func skipReason(output []string) string {
	for i := len(output) - 1; i >= 0; i-- {
		if m := logLine.FindStringSubmatch(output[i]); m != nil {
			reason, _, _ := strings.Cut(m[1], ": ")
			return strings.TrimSpace(reason)
		}
	}
	return "no reason given"
}

// path is a package's import path within this module.
func path(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/offerlog/offerlog/")
}
