// Package cases runs case folders of the form that testdata/cases/INDEX.md describes through the whole pipeline, from the
// topic to the view: OFFERLOG_CASES names the folder of folders, testdata/cases is the default.
//
// It prints one line for each case and, last, how many passed, failed and were skipped. A case is skipped where it needs
// what this version does not have: a feed setting that the feed's schema refuses, or a step of the list notYet.
package cases

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func TestMain(m *testing.M) {
	// Cases wait far more than they work: groups that form, polls that end.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	pipeline.Main(m)
}

func TestCases(t *testing.T) {
	root := os.Getenv("OFFERLOG_CASES")
	if root == "" {
		root = filepath.Join("..", "..", "testdata", "cases")
	}
	paths, err := filepath.Glob(filepath.Join(root, "*", "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("%s holds no folder with a case.json", root)
	}
	r := report{verdicts: make([]verdict, len(paths))}
	t.Run("each", func(t *testing.T) {
		for i, path := range paths {
			name := filepath.Base(filepath.Dir(path))
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := &listener{TB: t}
				t.Cleanup(func() { r.put(i, c.verdict(name)) }) // after what run leaves to be cleaned up
				run(c, filepath.Dir(path))
			})
		}
	})
	r.total()
}

// A listener is the test of one case: it keeps the first complaint for the case's line.
type listener struct {
	testing.TB
	mu      sync.Mutex
	what    string
	skipped string
}

func (l *listener) complain(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.what == "" {
		l.what = what
	}
	l.Fail()
}

func (l *listener) Error(args ...any)                 { l.complain(fmt.Sprint(args...)) }
func (l *listener) Errorf(format string, args ...any) { l.complain(fmt.Sprintf(format, args...)) }
func (l *listener) Fatal(args ...any)                 { l.complain(fmt.Sprint(args...)); l.FailNow() }

func (l *listener) Fatalf(format string, args ...any) {
	l.complain(fmt.Sprintf(format, args...))
	l.FailNow()
}

// skip ends the case. The test itself goes on to the next one, and is not a skipped one: its lines say what was skipped.
func (l *listener) skip(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped = why
}

func (l *listener) verdict(name string) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.what != "":
		return verdict{"FAIL", name + ": " + l.what}
	case l.Failed():
		return verdict{"FAIL", name}
	case l.skipped != "":
		return verdict{"SKIP", name + ": " + l.skipped}
	}
	return verdict{"PASS", name}
}

type verdict struct{ word, text string }

// A report prints verdicts in the order of the names, each as soon as those before it are known.
type report struct {
	mu       sync.Mutex
	verdicts []verdict
	printed  int
}

func (r *report) put(i int, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdicts[i] = v
	for r.printed < len(r.verdicts) && r.verdicts[r.printed].word != "" {
		r.print()
	}
}

func (r *report) print() {
	if v := r.verdicts[r.printed]; v.word != "" {
		fmt.Fprintln(os.Stdout, v.word, v.text)
	}
	r.printed++
}

func (r *report) total() {
	for r.printed < len(r.verdicts) { // what -run has left out holds the others back
		r.print()
	}
	n := map[string]int{}
	for _, v := range r.verdicts {
		n[v.word]++
	}
	fmt.Fprintf(os.Stdout, "%d passed, %d failed, %d skipped\n", n["PASS"], n["FAIL"], n["SKIP"])
}
